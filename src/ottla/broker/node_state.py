"""How far a node is on its way."""

from enum import IntEnum


class NodeState(IntEnum):
    """The numbers are those of Kafka's BrokerState metric."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7
