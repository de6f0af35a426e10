"""How everything else reaches the controller, wherever that is. What became of the metadata comes by the feed."""

from typing import Protocol, TypeVar

from ottla.metadata.controller.requests import Request

R = TypeVar("R")


class ControllerPort(Protocol):
    """The one way to change metadata, wherever the active controller is (broker/controller_channel.py)."""

    async def submit(self, request: Request[R]) -> R:
        """The reply, once all that it says is committed; an active controller of this node has published it here too.

        KafkaError if the request as a whole was refused; NOT_CONTROLLER, or REQUEST_TIMED_OUT where it was tried for a
        while, if nobody can say what became of it.
        """
