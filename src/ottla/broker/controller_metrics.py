"""What a node tells about its controller, and about its way to the active one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.env.metrics import Family, Gathered, Kind

if TYPE_CHECKING:
    from ottla.broker.node import Node

G: Final = Kind.GAUGE
C: Final = Kind.COUNTER
Figure = tuple[Family, Callable[["Node"], float]]

OF_CONTROLLERS: Final[tuple[Figure, ...]] = (
    (
        Family("kafka_controller_kafkacontroller_newactivecontrollerscount", G, "Active controllers heard of here."),
        lambda node: node.raft.elections,
    ),
    (
        Family("kafka_controller_kafkacontroller_timedoutbrokerheartbeatcount", G, "Sessions of brokers that ran out."),
        lambda node: node.local_controller.sessions_over,
    ),
    (
        Family("kafka_controller_kafkacontroller_eventqueueoperationsstartedcount", G, "Requests decided on here."),
        lambda node: node.local_controller.decided,
    ),
    (
        Family("ottla_controller_waiting_for_commit", G, "Answers that wait until their records are committed."),
        lambda node: node.local_controller.waiting,
    ),
    (
        Family("ottla_controller_brokers_found_dead_total", C, "Brokers fenced because their process was gone."),
        lambda node: _found_dead(node),
    ),
)
DECIDING: Final = Family(
    "kafka_controller_controllereventmanager_eventqueueprocessingtimems",
    Kind.SUMMARY,
    "How long the controller decided on a request, in milliseconds, without writing it.",
    ("quantile",),
)
OF_BROKERS: Final[tuple[Figure, ...]] = (
    (
        Family("kafka_server_forwardingmanager_queuelength", G, "Requests passed on to the controller, not answered."),
        lambda node: node.forwarding.waiting,
    ),
    (
        Family("ottla_controller_channel_retries_total", C, "Questions to the controller that had to be asked again."),
        lambda node: node.controller.retries,
    ),
    (
        Family("ottla_broker_heartbeat_age_seconds", G, "Since the controller last answered a heartbeat."),
        lambda node: _heartbeat_age(node),
    ),
)
REMOTE_TIME: Final = Family(
    "kafka_server_forwardingmanager_remotetimems",
    Kind.SUMMARY,
    "How long answers to requests that were passed on took, in milliseconds.",
    ("quantile",),
)


def _found_dead(node: Node) -> int:
    listener = node.controller_listener
    return 0 if listener is None or listener.failure_detector is None else listener.failure_detector.found


def _heartbeat_age(node: Node) -> float:
    assert node.broker is not None
    return node.env.loop.time() - node.broker.lifecycle.last_heartbeat


class ControllerMetrics:
    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Gathered]:
        """Nothing while the node starts: most of it is not there yet."""
        node = self._node
        if not node.is_serving:
            return
        if node.config.is_controller:
            for family, value in OF_CONTROLLERS:
                yield Gathered(family, [("", value(node))])
            yield Gathered(DECIDING, node.local_controller.deciding.summary_ms())
        if node.broker is not None:
            for family, value in OF_BROKERS:
                yield Gathered(family, [("", value(node))])
            yield Gathered(REMOTE_TIME, node.forwarding.times.summary_ms())
