"""When a broker may say that it knows what is in the remote tier."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.log.given import PARTITION, TOPIC_ID, Machine

from ottla.broker.tier.metadata_topic import TierMetadata
from ottla.model.errors import ErrorCode, OttlaError
from ottla.model.names import REMOTE_METADATA_TOPIC
from ottla.replica.partition import Leadership, Partition

KEY = (UUID(int=5), 0)
_FETCH, _LIST_OFFSETS = 1, 2


def metadata(machine: Machine, here: Partition | None = None) -> TierMetadata:
    """Of broker 1; the topic has one partition, which broker 2 leads."""
    topic = SimpleNamespace(id=UUID(int=9), partitions={0: SimpleNamespace(leader=2)})
    node = SimpleNamespace(
        env=machine.env,
        config=SimpleNamespace(node_id=1),
        image=SimpleNamespace(topic=lambda name: topic),
        replicas=SimpleNamespace(by_name={} if here is None else {(REMOTE_METADATA_TOPIC, 0): here}),
    )
    return TierMetadata(cast(Any, node))


class NewLeader:
    """Has an empty answer to every fetch, with a high watermark that is late at first."""

    def __init__(self, unknown_for: int) -> None:
        self.unknown_for = unknown_for
        self.asked = 0

    async def call(self, broker_id: int, key: int, values: Any) -> Any:
        assert broker_id == 2
        if key == _LIST_OFFSETS:
            self.asked += 1
            known = self.asked > self.unknown_for
            code = ErrorCode.none if known else ErrorCode.offset_not_available
            row = SimpleNamespace(partition_index=0, error_code=code, offset=0 if known else -1)
            return SimpleNamespace(topics=[SimpleNamespace(partitions=[row])])
        assert key == _FETCH
        row = SimpleNamespace(partition_index=0, error_code=ErrorCode.none, high_watermark=0, records=None)
        return SimpleNamespace(error_code=ErrorCode.none, responses=[SimpleNamespace(partitions=[row])])


@pytest.mark.parametrize("unknown_for", [0, 3])
def test_not_before_the_leader_of_the_topic_knows_what_is_committed(unknown_for: int) -> None:
    with Machine() as machine:
        tier, leader, seen = metadata(machine), NewLeader(unknown_for), list[bool]()

        async def story() -> None:
            call = leader.call

            async def noted(broker_id: int, key: int, values: Any) -> Any:
                if key == _FETCH:
                    seen.append(tier.knows(KEY))
                if tier.knows(KEY):
                    tier._followed.clear()
                    raise OttlaError("enough")
                return await call(broker_id, key, values)

            tier._readers = cast(Any, SimpleNamespace(call=noted, stop=None))
            tier.follow_number(0)
            await tier._leaders[2]

        machine.wait_for(story)
        assert seen == [False] * (unknown_for + 1) + [True]


@pytest.mark.parametrize(("isr", "knows"), [((2, 1), True), ((2,), False)])
def test_not_from_a_replica_of_the_topic_that_is_behind(isr: tuple[int, ...], knows: bool) -> None:
    with Machine() as machine:
        here = Partition(machine.env, 1, PARTITION, TOPIC_ID, machine.open(), 0)
        here.lead_or_follow(Leadership(2, 5, isr, (2, 1)))
        tier = metadata(machine, here)

        async def story() -> None:
            tier.follow_number(0)

        machine.wait_for(story)
        machine.pass_time(0.1)
        assert tier.knows(KEY) is knows
