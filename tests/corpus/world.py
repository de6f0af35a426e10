"""The state that the corpus finds: the same topics and records on every server."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from tests.corpus.scenarios import ALL
from tests.corpus.scenarios.records import KEEP, batch
from tests.corpus.scenarios.scenario import (
    CONFIGURED,
    EMPTY,
    FETCHED,
    SOON,
    STABLE,
    STABLE_MEMBER,
    T0,
    TIMED,
    Fixture,
    stand_in,
)
from tests.corpus.scenarios.transactions import IDLE, OPEN, PRODUCERS
from tests.interop.raw import LIST_OFFSETS, METADATA, PRODUCE, Raw, produce_values
from tests.waiting import attempts, until

# What a server is started with, with `_` for `.`: Apache Kafka and Ottla alike.
SETTINGS: Final[dict[str, Any]] = {
    "auto_create_topics_enable": False,
    "num_partitions": 2,
    "group_initial_rebalance_delay_ms": 0,
}
CREATE_TOPICS, FIND_COORDINATOR, INIT_PRODUCER_ID = 19, 10, 22
OFFSET_COMMIT, JOIN_GROUP, SYNC_GROUP, DESCRIBE_GROUPS = 8, 11, 14, 15
ADD_PARTITIONS, DESCRIBE_TRANSACTIONS = 24, 65
_SUBSCRIPTION: Final = b"\0\0\0\0\0\1" + len(TIMED).to_bytes(2, "big") + TIMED.encode() + b"\xff" * 4

COMMON: Final = (
    Fixture(
        TIMED, 1, KEEP, (batch(T0, T0 + 5, key=None), batch(T0 + 30, T0 + 20, T0 + 30, key=None))
    ),
    Fixture(EMPTY, 2),
    Fixture(CONFIGURED, 1, {"retention.ms": "-1", "max.message.bytes": "77", "cleanup.policy": "compact"}),
)  # fmt: skip
COMMON_NAMES: Final = frozenset((*(fixture.name for fixture in COMMON), STABLE, FETCHED, IDLE, OPEN))


def fixtures() -> list[Fixture]:
    """Of all APIs and versions, whichever are played."""
    found = list(COMMON)
    for scenario in ALL:
        for version in scenario.versions:
            found += scenario.fixtures(version)
    return found


def prepare(port: int) -> dict[bytes, bytes]:
    """Makes the topics and their records; gives what stands for the server's ids in the corpus, and those ids."""
    wanted = fixtures()
    with Raw(port, timeout=60) as raw:
        answer = raw.ask(CREATE_TOPICS, 7, topics=[_topic(one) for one in wanted], timeout=SOON, validate_only=False)
        refused = [topic for topic in answer.topics if topic.error_code]
        assert not refused, refused
        for fixture in wanted:
            _wait_until_served(raw, fixture)
            for data in fixture.batches:
                produced = raw.ask(PRODUCE, 9, **produce_values(fixture.name, data))
                assert not produced.responses[0].partition_responses[0].error_code, produced
        _start_producers(raw)
        return _ids(raw, wanted) | _fill_groups(raw)


def _start_producers(raw: Raw) -> None:
    """Their ids are the first of a new server: in requests they stand for themselves."""
    _wait_for_coordinator(raw, 1, OPEN)
    for _ in attempts("coordinators of transactions are loaded"):
        described = raw.ask(DESCRIBE_TRANSACTIONS, 0, transactional_ids=PRODUCERS).transaction_states
        if all(row.error_code.name == "transactional_id_not_found" for row in described):
            break
    for number, name in enumerate(PRODUCERS):
        for _ in attempts("there are producer ids"):
            begun = raw.ask(INIT_PRODUCER_ID, 4, transactional_id=name, transaction_timeout=timedelta(minutes=15))
            if not begun.error_code:
                break
        assert (begun.producer_id, begun.producer_epoch) == (number, 0)
    opened = raw.ask(
        ADD_PARTITIONS, 3, v3_and_below_transactional_id=OPEN, v3_and_below_producer_id=PRODUCERS.index(OPEN),
        v3_and_below_producer_epoch=0, v3_and_below_topics=[{"name": EMPTY, "partitions": [0, 1]}],
    )  # fmt: skip
    assert not opened.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code, opened


def _fill_groups(raw: Raw) -> dict[bytes, bytes]:
    """Makes the groups; gives what stands for the member's id, and that id."""
    for group in (STABLE, FETCHED):
        _wait_for_coordinator(raw, 0, group)
        for _ in attempts(f"the coordinator of {group} is loaded"):
            described = raw.ask(DESCRIBE_GROUPS, 5, groups=[group], include_authorized_operations=False)
            if not described.groups[0].error_code:
                break
    rows = [{"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": 0, "committed_metadata": "so far"}]
    committed = raw.ask(
        OFFSET_COMMIT, 9, group_id=FETCHED, generation_id_or_member_epoch=-1, member_id="", group_instance_id=None,
        topics=[{"name": name, "partitions": rows} for name in (TIMED, EMPTY)],
    )  # fmt: skip
    assert not any(row.error_code for topic in committed.topics for row in topic.partitions), committed
    joined = raw.ask(
        JOIN_GROUP, 3, group_id=STABLE, session_timeout=timedelta(minutes=30), rebalance_timeout=timedelta(minutes=30),
        member_id="", protocol_type="consumer", protocols=[{"name": "range", "metadata": _SUBSCRIPTION}],
    )  # fmt: skip
    assert not joined.error_code, joined
    shares = [{"member_id": joined.member_id, "assignment": b"all"}]
    synced = raw.ask(
        SYNC_GROUP, 2, group_id=STABLE, generation_id=1, member_id=joined.member_id, assignments=shares
    )  # fmt: skip
    assert not synced.error_code, synced
    return {STABLE_MEMBER.encode(): joined.member_id.encode()}


def wait_for_coordinators(port: int) -> None:
    """Apache Kafka makes their topics when somebody first asks, and answers otherwise until they are there."""
    with Raw(port) as raw:
        until(
            lambda: not raw.ask(INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=SOON).error_code,
            "there are producer ids",
        )
        for kind, key in ((0, "group"), (1, "t"), (2, "group:AAAAAAAAAAAAAAAAAAAAAA:0")):
            _wait_for_coordinator(raw, kind, key)


def _wait_for_coordinator(raw: Raw, kind: int, key: str) -> None:
    until(
        lambda: not raw.ask(FIND_COORDINATOR, 6, key_type=kind, coordinator_keys=[key]).coordinators[0].error_code,
        f"a coordinator for keys of type {kind}",
    )


def _topic(fixture: Fixture) -> dict[str, Any]:
    return {
        "name": fixture.name, "num_partitions": fixture.partitions, "replication_factor": 1, "assignments": [],
        "configs": [{"name": name, "value": value} for name, value in fixture.configs.items()],
    }  # fmt: skip


def _wait_until_served(raw: Raw, fixture: Fixture) -> None:
    """Kafka answers CreateTopics before the broker has the partitions."""
    rows = [{"partition_index": at, "current_leader_epoch": -1, "timestamp": -1} for at in range(fixture.partitions)]
    topics = [{"name": fixture.name, "partitions": rows}]
    for _ in attempts(f"{fixture.name} is served"):
        (answer,) = raw.ask(
            LIST_OFFSETS, 9, replica_id=-1, isolation_level=0, topics=topics, timeout=timedelta(0)
        ).topics
        if not any(row.error_code for row in answer.partitions):
            return


def _ids(raw: Raw, wanted: list[Fixture]) -> dict[bytes, bytes]:
    answer = raw.ask(
        METADATA, 12, topics=[{"name": fixture.name, "topic_id": None} for fixture in wanted],
        allow_auto_topic_creation=False, include_topic_authorized_operations=False,
    )  # fmt: skip
    found = {stand_in(topic.name).bytes: topic.topic_id.bytes for topic in answer.topics}
    return found | {CLUSTER_ID: answer.cluster_id.encode()}


CLUSTER_ID: Final = b"AAAAAAAAAAAAAAAAAAAAAg"  # stands for the server's own, which is as long
