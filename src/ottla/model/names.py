"""The names that everything else uses, so that an offset is never mistaken for an epoch."""

from enum import IntEnum
from typing import Final, NamedTuple, NewType
from uuid import UUID

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
TimestampMs = NewType("TimestampMs", int)
TopicId = UUID

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_TOPIC_ID: Final = UUID(int=0)

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = UUID(int=1)
OFFSETS_TOPIC: Final = "__consumer_offsets"
HISTORY_TOPIC: Final = "__ottla_group_history"
"""Our own: why groups rebalanced."""
TRANSACTION_TOPIC: Final = "__transaction_state"
REMOTE_METADATA_TOPIC: Final = "__remote_log_metadata"
"""What is in the remote tier. Kafka does not count it among the internal ones."""
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTION_TOPIC, "__share_group_state", HISTORY_TOPIC})


class TopicPartition(NamedTuple):
    """One partition of one topic; printed and stored in folders as Kafka does: `topic-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ResourceType(IntEnum):
    """What has configs. The numbers are those of the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
