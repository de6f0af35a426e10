"""Who asks, what for, and whether he may. Every API asks here; until ACLs come, everyone may do everything."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, Protocol


class Principal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
CLUSTER_NAME: Final = "kafka-cluster"


class Operation(IntEnum):
    """Kafka's numbers, as they stand in ACLs and in bit fields of authorised operations."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Resource(IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


TOPIC_OPERATIONS: Final = (
    Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
)  # fmt: skip
GROUP_OPERATIONS: Final = (
    Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
)  # fmt: skip
CLUSTER_OPERATIONS: Final = (
    Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE,
)  # fmt: skip


class Authorizer(Protocol):
    def allows(self, principal: Principal, operation: Operation, resource: Resource, name: str) -> bool: ...


class AllowAll:
    def allows(self, principal: Principal, operation: Operation, resource: Resource, name: str) -> bool:
        return True


def allowed_bits(
    authorizer: Authorizer, principal: Principal, operations: tuple[Operation, ...], resource: Resource, name: str
) -> int:
    """The bit field in which Metadata and DescribeCluster tell what the asker may do."""
    return sum(1 << op for op in operations if authorizer.allows(principal, op, resource, name))
