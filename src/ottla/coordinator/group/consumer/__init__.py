"""Consumer groups (KIP-848): members say what they want and have, the coordinator decides who is to have what."""
