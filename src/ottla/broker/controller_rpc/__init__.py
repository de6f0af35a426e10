"""What a broker asks of an active controller in another process: one file for each RPC, from our request and back."""
