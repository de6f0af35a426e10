"""Clients of a simulated node: producers, consumers, and whoever makes and deletes topics. All they learn is noted."""
