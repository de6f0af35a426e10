"""Produce, Fetch, ListOffsets, DeleteRecords, OffsetForLeaderEpoch, InitProducerId."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from tests.corpus.scenarios.scenario import (
    CONFIGURED,
    EMPTY,
    SESSION,
    SOON,
    T0,
    TIMED,
    UNKNOWN_ID,
    Cases,
    Fixture,
    Scenario,
    Values,
    by_name_and_id,
    is_patient,
    own,
)

from ottla.record.batch import Codec, TimestampType
from ottla.record.builder import build_batch
from ottla.record.records import Record

KEEP: Final = {"retention.ms": "-1"}
FAR_FUTURE: Final = 4_000_000_000_000


def batch(*timestamps: int, key: bytes | None = b"key", value: bytes | None = b"value", **how: Any) -> bytes:
    return build_batch([Record(key, value, timestamp) for timestamp in timestamps or (T0,)], **how)


# -- Produce


def _produce(topic: str, *rows: tuple[int, bytes | None], **values: Any) -> Values:
    """Rows are partitions with their records."""
    name = values.pop("topic_id", None)
    data = [{**by_name_and_id(topic, name), "partition_data": [{"index": at, "records": data} for at, data in rows]}]
    return {"transactional_id": None, "acks": -1, "timeout": SOON, "topic_data": data} | values


def _produce_cases(version: int) -> Cases:
    names = ("plain", "small", "clock", "keyed", "odd")  # in the last one, outcomes that differ do no more harm
    topic, small, clock, keyed, odd = (own(0, version, name) for name in names)
    one = batch()
    idempotent: dict[str, Any] = {"producer_id": 4711, "producer_epoch": 0}
    wrong_crc = one[:17] + bytes((one[17] ^ 1,)) + one[18:]
    two_topics = _produce(topic, (0, one))
    two_topics["topic_data"] = two_topics["topic_data"] + _produce(small, (0, one))["topic_data"]
    return {
        "one record": _produce(topic, (0, one)),
        "three records": _produce(topic, (0, batch(T0, T0 + 2, T0 + 1))),
        "two partitions": _produce(topic, (0, one), (1, one)),
        "two topics": two_topics,
        "no topics": _produce(topic) | {"topic_data": []},
        "no partitions": _produce(topic),
        "no records": _produce(topic, (0, None)),
        "empty records": _produce(topic, (0, b"")),
        "a partition twice": _produce(topic, (0, one), (0, one)),
        "unknown topic": _produce("absent", (0, one), topic_id=UNKNOWN_ID),
        "unknown partition": _produce(topic, (7, one), (0, one)),
        "negative partition": _produce(topic, (-1, one)),
        **{f"acks {acks}": _produce(topic, (0, one), acks=acks) for acks in (1, 0, 2, -2)},
        "acks 0 to an unknown partition": _produce(topic, (7, one), acks=0),
        "acks 2 to an unknown topic": _produce("absent", (0, one), acks=2),
        "no time": _produce(topic, (0, one), timeout=timedelta(0)),
        **{f"packed by {codec.name}": _produce(topic, (0, batch(codec=codec))) for codec in Codec},
        "codec 5": _produce(topic, (0, _with(one, attributes=5))),
        "wrong CRC": _produce(topic, (0, wrong_crc)),
        "magic 0": _produce(topic, (0, one[:16] + b"\x00" + one[17:])),
        "magic 1": _produce(topic, (0, one[:16] + b"\x01" + one[17:])),
        "magic 3": _produce(topic, (0, one[:16] + b"\x03" + one[17:])),
        "a batch cut short": _produce(topic, (0, one[:-1])),
        "a header cut short": _produce(topic, (0, one[:40])),
        "two batches": _produce(topic, (0, one + one)),
        "a control batch": _produce(topic, (0, batch(control=True))),
        "a transactional batch": _produce(topic, (0, batch(transactional=True, **idempotent, base_sequence=0))),
        "a base offset": _produce(topic, (0, batch(base_offset=77, leader_epoch=5))),
        "count too large": _produce(topic, (0, _with(one, count=2))),
        "count 0": _produce(topic, (0, _with(one, count=0))),
        "negative count": _produce(topic, (0, _with(one, count=-1))),
        "too large": _produce(small, (0, batch(value=b"v" * 300))),
        "large enough": _produce(small, (0, batch(value=b"v" * 20))),
        "server's clock": _produce(clock, (0, one)),
        "the future": _produce(topic, (0, batch(FAR_FUTURE))),
        "before time": _produce(topic, (0, batch(-1))),
        "claims the server's clock": _produce(odd, (0, batch(timestamp_type=TimestampType.LOG_APPEND_TIME))),
        "without key, compacted": _produce(keyed, (0, batch(key=None))),
        "with key, compacted": _produce(keyed, (0, batch())),
        "without value": _produce(keyed, (0, batch(value=None))),
        **{
            f"idempotent, {name}": _produce(topic, (0, batch(**idempotent, base_sequence=sequence)))
            for name, sequence in (("first", 0), ("second", 1), ("again", 1), ("gap", 5), ("going back", -7))
        },
        "idempotent, new epoch": _produce(topic, (0, batch(producer_id=4711, producer_epoch=1, base_sequence=0))),
        "idempotent, old epoch": _produce(topic, (0, batch(**idempotent, base_sequence=2))),
        "idempotent, new epoch amid": _produce(topic, (0, batch(producer_id=4711, producer_epoch=2, base_sequence=9))),
        "idempotent, unknown amid": _produce(topic, (0, batch(producer_id=42, producer_epoch=0, base_sequence=9))),
        "transactional id": _produce(topic, (0, one), transactional_id="t"),
    }


def _with(data: bytes, *, attributes: int | None = None, count: int | None = None) -> bytes:
    """A batch with another header, and a CRC that fits."""
    from crc32c import crc32c

    changed = bytearray(data)
    if attributes is not None:
        changed[21:23] = attributes.to_bytes(2, "big")
    if count is not None:
        changed[57:61] = count.to_bytes(4, "big", signed=True)
    changed[17:21] = crc32c(changed[21:]).to_bytes(4, "big")
    return bytes(changed)


def _produce_fixtures(version: int) -> tuple[Fixture, ...]:
    return (
        Fixture(own(0, version, "plain"), 2, KEEP),
        Fixture(own(0, version, "small"), 1, KEEP | {"max.message.bytes": "150"}),
        Fixture(own(0, version, "clock"), 1, KEEP | {"message.timestamp.type": "LogAppendTime"}),
        Fixture(own(0, version, "keyed"), 1, KEEP | {"cleanup.policy": "compact"}),
        Fixture(own(0, version, "odd"), 1, KEEP),
    )


def _produce_is_harmless(request: Any) -> bool:
    """Apache Kafka never answers where records are null: one case of that will do, for each takes time."""
    return all(row.records is not None for topic in request.topic_data for row in topic.partition_data)


PRODUCE: Final = Scenario(0, "Produce", 3, 13, _produce_cases, _produce_fixtures, _produce_is_harmless)

# -- Fetch


def _fetch(topic: str = TIMED, offset: int = 0, partition: int = 0, **values: Any) -> Values:
    row = {
        "partition": partition,
        "fetch_offset": offset,
        "current_leader_epoch": values.pop("epoch", -1),
        "last_fetched_epoch": values.pop("last_epoch", -1),
        "log_start_offset": values.pop("start", -1),
        "partition_max_bytes": values.pop("partition_bytes", 1 << 20),
    }
    topic_id = values.pop("topic_id", None)
    rows = [row] * values.pop("times", 1)
    return {
        "replica_id": -1,
        "max_wait": timedelta(0),
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{**by_name_and_id(topic, topic_id), "partitions": rows}],
        "forgotten_topics_data": [],
        "rack_id": "",
    } | values


def _fetch_cases(version: int) -> Cases:
    forgotten = [{**by_name_and_id(TIMED), "partitions": [0]}]
    several = _fetch()
    several["topics"] = several["topics"] + _fetch(EMPTY, partition=1)["topics"] + _fetch(CONFIGURED)["topics"]
    follower: dict[str, Any] = {"replica_id": 1, "replica_state": {"replica_id": 1, "replica_epoch": 0}}
    return {
        "from the start": _fetch(),
        "the second batch": _fetch(offset=2),
        "inside a batch": _fetch(offset=4),
        "the end": _fetch(offset=5),
        "beyond the end": _fetch(offset=6),
        "before the start": _fetch(offset=-1),
        "several topics": several,
        "an empty topic": _fetch(EMPTY),
        "no topics": _fetch() | {"topics": []},
        "an unknown topic": _fetch("absent", topic_id=UNKNOWN_ID),
        "an unknown partition": _fetch(partition=9),
        "a negative partition": _fetch(partition=-1),
        "a partition twice": _fetch(times=2),
        "committed only": _fetch(isolation_level=1),
        "isolation level 2": _fetch(isolation_level=2),
        "isolation level -1": _fetch(isolation_level=-1),
        "few bytes": _fetch(max_bytes=10),
        "no bytes": _fetch(max_bytes=0),
        "negative bytes": _fetch(max_bytes=-1),
        "few bytes of the partition": _fetch(partition_bytes=10),
        "no bytes of the partition": _fetch(partition_bytes=0),
        "negative bytes of the partition": _fetch(partition_bytes=-5),
        "waits in vain": _fetch(offset=5, min_bytes=1, max_wait=timedelta(milliseconds=20)),
        "a negative wait": _fetch(offset=5, min_bytes=1, max_wait=timedelta(milliseconds=-20)),
        **{f"in epoch {epoch}": _fetch(epoch=epoch) for epoch in (0, 1, -2)},
        **{f"after epoch {epoch}": _fetch(offset=5, last_epoch=epoch) for epoch in (0, 3)},
        "a session, unknown topic": _fetch("absent", topic_id=UNKNOWN_ID, session_epoch=0),
        "a session": _fetch(session_epoch=0),
        **{f"the session, {name}": values | {"session_id": SESSION} for name, values in _session_goes_on().items()},
        "no such session": _fetch(session_id=123456, session_epoch=1),
        "an end of no session": _fetch(session_id=123456, session_epoch=-1),
        "no session, epoch 5": _fetch(session_epoch=5),
        "forgotten topics": _fetch(forgotten_topics_data=forgotten),
        "a rack": _fetch(rack_id="r"),
        "a follower": _fetch(**follower),
        "a follower that nobody knows": _fetch(replica_id=9, replica_state={"replica_id": 9, "replica_epoch": 3}),
        "an old debugger": _fetch(replica_id=-2, replica_state={"replica_id": -2, "replica_epoch": -1}),
        "a cluster": _fetch(cluster_id="another"),
    }


def _session_goes_on() -> Cases:
    """One after the other."""
    forgotten = [{**by_name_and_id(TIMED), "partitions": [0]}]
    nothing: Values = {"topics": []}
    return {
        "nothing new": _fetch(session_epoch=1) | nothing,
        "another offset": _fetch(offset=2, session_epoch=2),
        "the same again": _fetch(session_epoch=3) | nothing,
        "at the end": _fetch(offset=5, session_epoch=4),
        "still at the end": _fetch(session_epoch=5) | nothing,
        "a partition more": _fetch(EMPTY, session_epoch=6),
        "an unknown partition more": _fetch(EMPTY, partition=7, session_epoch=7),
        "an unknown topic more": _fetch("absent", topic_id=UNKNOWN_ID, session_epoch=8),
        "all unknown still": _fetch(session_epoch=9) | nothing,
        "a partition less": _fetch(session_epoch=10, forgotten_topics_data=forgotten) | nothing,
        "out of range": _fetch(offset=9, session_epoch=11),
        "an epoch too late": _fetch(session_epoch=20) | nothing,
        "an epoch again": _fetch(session_epoch=11) | nothing,
        "a negative epoch": _fetch(session_epoch=-5) | nothing,
        "after that": _fetch(session_epoch=12) | nothing,
        "from the start": _fetch(session_epoch=0),
        "its end": _fetch(session_epoch=-1),
        "after its end": _fetch(session_epoch=1) | nothing,
    }


def _fetch_is_harmless(request: Any) -> bool:
    """It is answered soon, and names no follower: a fetch by one moves the high watermark."""
    follower = request.replica_id if hasattr(request, "replica_id") else request.replica_state.replica_id
    return bool(request.max_wait <= timedelta(milliseconds=50) and follower < 0)


FETCH: Final = Scenario(1, "Fetch", 4, 18, _fetch_cases, is_harmless=_fetch_is_harmless)

# -- ListOffsets


def _offsets(timestamp: int, topic: str = TIMED, partition: int = 0, epoch: int = -1, **values: Any) -> Values:
    row = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": timestamp}
    asked = [{"name": topic, "partitions": [row] * values.pop("times", 1)}]
    return {"replica_id": -1, "isolation_level": 0, "topics": asked, "timeout": SOON, **values}


def _offset_cases(version: int) -> Cases:
    return {
        **{f"at {asked}": _offsets(asked) for asked in (-1, -2, -3, -4, -5, -6, -7, -8, 0, 1, 1 << 62)},
        **{f"after {late} ms": _offsets(T0 + late) for late in (-1, 0, 1, 5, 6, 25, 30, 31)},
        **{f"at {asked}, empty": _offsets(asked, EMPTY) for asked in (-1, -2, -3, -4, -5, -6, 0)},
        "an unknown topic": _offsets(-1, "absent"),
        "a wrong name": _offsets(-1, "two words"),
        "an unknown partition": _offsets(-1, partition=7),
        "a negative partition": _offsets(-1, partition=-1),
        "a partition twice": _offsets(-1, times=2),
        **{f"in epoch {epoch}": _offsets(-1, epoch=epoch) for epoch in (0, 1, -2)},
        **{f"isolation level {level}": _offsets(-1, isolation_level=level) for level in (1, 2, -1)},
        **{f"replica {replica}": _offsets(-1, replica_id=replica) for replica in (-2, -3, 0, 1, 9)},
        "no topics": _offsets(-1) | {"topics": []},
        "no time": _offsets(-1, timeout=timedelta(0)),
    }


LIST_OFFSETS: Final = Scenario(2, "ListOffsets", 1, 11, _offset_cases)

# -- DeleteRecords


def _delete(topic: str, *rows: tuple[int, int], timeout: timedelta = SOON) -> Values:
    partitions = [{"partition_index": partition, "offset": offset} for partition, offset in rows]
    return {"topics": [{"name": topic, "partitions": partitions}], "timeout": timeout}


def _delete_cases(version: int) -> Cases:
    topic, kept = own(21, version, "plain"), own(21, version, "kept")
    return {
        "nothing": _delete(topic, (0, 0)),
        "a record": _delete(topic, (0, 1)),
        "again": _delete(topic, (0, 1)),
        "what is gone": _delete(topic, (0, 0)),
        "all": _delete(topic, (0, -1)),
        "beyond the end": _delete(topic, (0, 99)),
        "a negative offset": _delete(topic, (0, -2)),
        "an empty partition": _delete(topic, (1, -1)),
        "an unknown topic": _delete("absent", (0, 0)),
        "an unknown partition": _delete(topic, (5, 0)),
        "a negative partition": _delete(topic, (-1, 0)),
        "a partition twice": _delete(topic, (0, 1), (0, 2)),
        "from a compacted topic": _delete(kept, (0, 0)),
        "an internal topic": _delete("__cluster_metadata", (0, 0)),
        "no topics": {"topics": [], "timeout": SOON},
        "no partitions": _delete(topic),
    }


def _delete_fixtures(version: int) -> tuple[Fixture, ...]:
    return (
        Fixture(own(21, version, "plain"), 2, KEEP, (batch(T0, T0 + 1), batch(T0 + 2))),
        Fixture(own(21, version, "kept"), 1, KEEP | {"cleanup.policy": "compact"}, (batch(),)),
    )


DELETE_RECORDS: Final = Scenario(
    21, "DeleteRecords", 0, 2, _delete_cases, _delete_fixtures, lambda request: is_patient(request.timeout)
)

# -- OffsetForLeaderEpoch


def _epoch_end(epoch: int, topic: str = TIMED, partition: int = 0, current: int = -1, **values: Any) -> Values:
    row = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": [row] * values.pop("times", 1)}], **values}


def _epoch_cases(version: int) -> Cases:
    return {
        **{f"end of {epoch}": _epoch_end(epoch) for epoch in (0, -1, -2, 1, 1 << 30)},
        "an empty topic": _epoch_end(0, EMPTY),
        "an unknown topic": _epoch_end(0, "absent"),
        "an unknown partition": _epoch_end(0, partition=8),
        "a partition twice": _epoch_end(0, times=2),
        **{f"in epoch {epoch}": _epoch_end(0, current=epoch) for epoch in (0, 1, -2)},
        **{f"replica {replica}": _epoch_end(0, replica_id=replica) for replica in (-2, 0, 1)},
        "no topics": {"replica_id": -1, "topics": []},
    }


OFFSET_FOR_LEADER_EPOCH: Final = Scenario(23, "OffsetForLeaderEpoch", 2, 4, _epoch_cases)

# -- InitProducerId


def _producer(transactional_id: str | None = None, timeout: timedelta = SOON, **values: Any) -> Values:
    return {"transactional_id": transactional_id, "transaction_timeout": timeout} | values


def _producer_cases(version: int) -> Cases:
    return {
        "an id": _producer(),
        "no time": _producer(timeout=timedelta(0)),
        "an empty transactional id": _producer(""),
        "a transaction without time": _producer("t", timedelta(0)),
        "a negative time": _producer("t", timedelta(milliseconds=-1)),
        "a long transaction": _producer("t", timedelta(days=2)),
        "an id without epoch": _producer(producer_id=3),
        "an epoch without id": _producer(producer_epoch=3),
        "an id again": _producer(producer_id=3, producer_epoch=0),
    }


INIT_PRODUCER_ID: Final = Scenario(
    22, "InitProducerId", 0, 5, _producer_cases, is_harmless=lambda request: request.transactional_id is None
)
