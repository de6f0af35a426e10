"""How the coordinator shares out partitions in a consumer group (KIP-848): pure, a spec in, an assignment out."""
