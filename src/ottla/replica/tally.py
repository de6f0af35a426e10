"""What all partitions of a node count together: who asks often need not go through them."""

from __future__ import annotations


class Tally:
    __slots__ = ("bytes_appended",)

    def __init__(self) -> None:
        self.bytes_appended = 0
