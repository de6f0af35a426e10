"""How everything else reaches the controller, wherever that is. What became of the metadata comes by the feed."""

from typing import Protocol, TypeVar

from ottla.metadata.controller.requests import Request

R = TypeVar("R")


class ControllerPort(Protocol):
    """The one way to change metadata. A local controller answers itself; others will forward to the active one."""

    async def submit(self, request: Request[R]) -> R:
        """The reply, once all that it says is committed and published here.

        KafkaError if the request as a whole was refused; NOT_CONTROLLER if nobody can say what became of it.
        """
