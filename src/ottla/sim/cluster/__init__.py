"""Whole clusters of real nodes with their clients on virtual time: faults by seed, and an oracle that judges."""
