"""The conditions on a simulated network."""

from dataclasses import dataclass


@dataclass(slots=True)
class Weather:
    """How the network behaves. May be changed at any time."""

    shortest_s: float = 0.0001
    longest_s: float = 0.002
    pieces: float = 0.3
    """How often data is cut into smaller pieces, on its way and at each read."""
    window: int = 65536
    cut: float = 0.0
    """How often the arrival of data ends, at a random byte, with the loss of the connection."""
    patience_s: float = 30.0
    """How long a sender repeats what is not acknowledged, and a caller an unanswered call."""
