"""What a node answers on its controller's listener, one file for each API; registry.py has all of them."""
