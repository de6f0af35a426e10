"""How everything else reaches the controller, wherever that is, and learns what became of the metadata."""

from typing import Protocol, TypeVar

from ottla.metadata.controller.requests import Request
from ottla.metadata.delta import Publisher
from ottla.metadata.image import MetadataImage

R = TypeVar("R")


class ControllerPort(Protocol):
    """The one way to change metadata. A local controller answers itself; others will forward to the active one."""

    async def submit(self, request: Request[R]) -> R:
        """The reply, once all that it says is committed and published here.

        KafkaError if the request as a whole was refused; NOT_CONTROLLER if nobody can say what became of it.
        """


class MetadataFeed(Protocol):
    """Committed metadata as this node knows it."""

    @property
    def image(self) -> MetadataImage: ...

    async def subscribe(self, publisher: Publisher) -> None:
        """Tells the publisher all there is at once, then every change in order."""
