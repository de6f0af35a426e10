"""Metrics that clients push (KIP-714): who is asked for what, and what came."""
