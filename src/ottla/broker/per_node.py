"""State that an API keeps for a node, made when first asked for and gone with the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from ottla.broker.node import Node

T = TypeVar("T")


class PerNode(Generic[T]):
    """Not one for the process: a simulated cluster runs many nodes in it. What is made must not hold on to its node."""

    def __init__(self, make: Callable[[Node], T]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[Node, T] = WeakKeyDictionary()

    def of(self, node: Node) -> T:
        made = self._made.get(node)
        if made is None:
            made = self._made[node] = self._make(node)
        return made
