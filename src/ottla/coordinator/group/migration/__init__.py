"""Groups that move from one protocol to the other while they run, and classic members in consumer groups (KIP-848)."""
