"""The APIs of transactions, request by request; what comes of several is in `tests/broker/apis/transaction_stories.py`.

The producers of `PRODUCERS` are there, each with the id that is its place. `IDLE` has no transaction and `OPEN` has
one; nobody changes these two. The others belong to one API each.
"""

from __future__ import annotations

from typing import Any, Final

from tests.corpus.scenarios.records import batch
from tests.corpus.scenarios.scenario import (
    EMPTY,
    FETCHED,
    STABLE,
    STABLE_MEMBER,
    TIMED,
    Cases,
    Fixture,
    Scenario,
    Values,
    own,
)

IDLE, OPEN, ADDS, ADDS_OFFSETS, COMMITS = PRODUCERS = (
    "idle-producer", "open-producer", "adding-producer", "offset-producer", "committing-producer",
)  # fmt: skip
_ADD, _ADD_OFFSETS, _END, _MARK, _COMMIT, _DESCRIBE_PRODUCERS = 24, 25, 26, 27, 28, 61
_OWN: Final = "own-"
_SHARED: Final = frozenset((TIMED, EMPTY, "__consumer_offsets", "__transaction_state"))


def _id(name: str) -> int:
    return PRODUCERS.index(name)


def _who(name: str, producer_id: int | None = None, epoch: int = 0) -> Values:
    known = _id(name) if name in PRODUCERS else 0
    return {
        "transactional_id": name, "producer_id": known if producer_id is None else producer_id, "producer_epoch": epoch,
    }  # fmt: skip


_WRONG: Final[dict[str, Values]] = {
    "an unknown name": _who("absent"),
    "no name": _who(""),
    "another's id": _who(IDLE, _id(OPEN)),
    "an unknown id": _who(IDLE, 987_654_321),
    "no id": _who(IDLE, -1),
    "an older epoch": _who(IDLE, epoch=-1),
    "a newer epoch": _who(IDLE, epoch=1),
}

# -- AddPartitionsToTxn


def _add(who: Values, *topics: tuple[str, list[int]], verify_only: bool = False) -> Values:
    rows = [{"name": name, "partitions": partitions} for name, partitions in topics]
    of_clients = {f"v3_and_below_{field}": value for field, value in who.items()} | {"v3_and_below_topics": rows}
    return of_clients | {"transactions": [{**who, "verify_only": verify_only, "topics": rows}]}


def _add_cases(version: int) -> Cases:
    right = _who(ADDS)
    both = _add(right, (EMPTY, [0, 1]))
    both["transactions"] = both["transactions"] + _add(_who(IDLE, epoch=9), (TIMED, [0]))["transactions"]
    return {
        "a partition": _add(right, (TIMED, [0])),
        "two of one topic": _add(right, (EMPTY, [0, 1])),
        "of two topics": _add(right, (EMPTY, [1]), (TIMED, [0])),
        "of two producers": both,
        "a partition twice": _add(right, (EMPTY, [0, 0])),
        "an unknown topic": _add(right, ("absent", [0])),
        "an unknown partition": _add(right, (EMPTY, [0, 7])),
        "an internal topic": _add(right, ("__transaction_state", [0])),
        "no partition": _add(right, (EMPTY, [])),
        "nothing": _add(right),
        "verified": _add(right, (EMPTY, [0]), verify_only=True),
        **({"verified and not there": _add(_who(OPEN), (TIMED, [0]), verify_only=True)} if version >= 4 else {}),
        **{name: _add(who, (EMPTY, [0])) for name, who in _WRONG.items()},
        **{f"{name}, verified": _add(who, (EMPTY, [0]), verify_only=True) for name, who in _WRONG.items()},
    }


def _is_of(request: Any, *names: str) -> bool:
    return any(
        row.transactional_id in names and (row.producer_id, row.producer_epoch) == (_id(row.transactional_id), 0)
        for row in getattr(request, "transactions", (request,))
    )


def _add_is_harmless(request: Any) -> bool:
    if request.__version__ >= 4:
        return not _is_of(request, IDLE, OPEN)
    who = (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    return not any(request.v3_and_below_transactional_id == name and who == (_id(name), 0) for name in (IDLE, OPEN))


ADD_PARTITIONS: Final = Scenario(_ADD, "AddPartitionsToTxn", 0, 5, _add_cases, is_harmless=_add_is_harmless)

# -- AddOffsetsToTxn


def _add_offsets(who: Values, group: str = "absent") -> Values:
    return {**who, "group_id": group}


ADD_OFFSETS: Final = Scenario(
    _ADD_OFFSETS, "AddOffsetsToTxn", 0, 4,
    lambda version: {
        "of a group": _add_offsets(_who(ADDS_OFFSETS)),
        "again": _add_offsets(_who(ADDS_OFFSETS), FETCHED),
        "of no group": _add_offsets(_who(ADDS_OFFSETS), ""),
        **{name: _add_offsets(who) for name, who in _WRONG.items()},
    },
    is_harmless=lambda request: not _is_of(request, IDLE, OPEN),
)  # fmt: skip

# -- EndTxn


def _end(who: Values, is_commit: bool = True) -> Values:
    return {**who, "committed": is_commit}


ENDS: Final = Scenario(
    _END, "EndTxn", 0, 5,
    lambda version: {
        "nothing was begun": _end(_who(IDLE)),
        **{name: _end(who) for name, who in _WRONG.items()},
        **{f"{name}, aborted": _end(who, False) for name, who in _WRONG.items()},
        "another epoch of an open one": _end(_who(OPEN, epoch=1)),
        "another id of an open one": _end(_who(OPEN, 9), False),
    },
    # To abort what was not begun changes the epoch, from version 5 on.
    is_harmless=lambda request: not _is_of(request, OPEN) and not (_is_of(request, IDLE) and not request.committed),
)  # fmt: skip

# -- WriteTxnMarkers


def _mark(*topics: tuple[str, list[int]], producer_id: int = 5000, epoch: int = 0, **values: Any) -> Values:
    rows = [{"name": name, "partition_indexes": partitions} for name, partitions in topics]
    given = {
        "producer_id": producer_id, "producer_epoch": epoch, "transaction_result": True, "topics": rows,
        "coordinator_epoch": 0, "transaction_version": 0,
    }  # fmt: skip
    return {"markers": [given | values]}


def _mark_cases(version: int) -> Cases:
    topic, other = own(_MARK, version, "marked"), own(_MARK, version, "other")
    two = {"markers": _mark((topic, [0]))["markers"] + _mark((other, [0]), producer_id=5001)["markers"]}
    return {
        "of one who never wrote": _mark((topic, [0])),
        "again": _mark((topic, [0])),
        "aborted": _mark((topic, [0]), transaction_result=False),
        "a newer epoch": _mark((topic, [0]), epoch=3),
        "an older epoch": _mark((topic, [0]), epoch=1),
        "a newer coordinator": _mark((topic, [0]), epoch=3, coordinator_epoch=5),
        "an older coordinator": _mark((topic, [0]), epoch=3, coordinator_epoch=4),
        "an administrator's": _mark((topic, [0]), epoch=3, coordinator_epoch=-1),
        "of the second version": _mark((topic, [0]), epoch=4, coordinator_epoch=5, transaction_version=2),
        "of the second version, again": _mark((topic, [0]), epoch=4, coordinator_epoch=5, transaction_version=2),
        "two partitions": _mark((other, [0, 1]), producer_id=5002),
        "two topics": _mark((topic, [1]), (other, [1]), producer_id=5003),
        "two producers": two,
        "an unknown partition": _mark((topic, [0, 9]), producer_id=5004),
        "an unknown topic": _mark(("absent", [0])),
        "no partition": _mark((topic, [])),
        "no topic": _mark(),
        "no markers": {"markers": []},
    }


MARKERS: Final = Scenario(
    _MARK, "WriteTxnMarkers", 1, 2, _mark_cases,
    fixtures=lambda version: (Fixture(own(_MARK, version, "marked"), 2), Fixture(own(_MARK, version, "other"), 2)),
    is_harmless=lambda request: not any(topic.name in _SHARED for row in request.markers for topic in row.topics),
)  # fmt: skip

# -- TxnOffsetCommit


def _commit(who: Values, group: str, *topics: tuple[str, list[int]], offset: int = 3, **values: Any) -> Values:
    metadata = values.pop("metadata", "so far")
    rows = [
        {
            "name": name,
            "partitions": [
                {"partition_index": number, "committed_offset": offset, "committed_leader_epoch": 0,
                 "committed_metadata": metadata}
                for number in partitions
            ],
        }
        for name, partitions in topics
    ]  # fmt: skip
    given = {"group_id": group, "generation_id": -1, "member_id": "", "group_instance_id": None, "topics": rows}
    return who | given | values


def _commit_cases(version: int) -> Cases:
    group, right = own(_COMMIT, version, "group"), _who(COMMITS)
    of_stable: Values = {"generation_id": 1, "member_id": STABLE_MEMBER}
    return {
        "an offset": _commit(right, group, (TIMED, [0])),
        "two topics": _commit(right, group, (TIMED, [0]), (EMPTY, [0, 1])),
        "an unknown topic": _commit(right, group, ("absent", [0])),
        "an unknown partition": _commit(right, group, (EMPTY, [0, 7])),
        "too much metadata": _commit(right, group, (TIMED, [0]), metadata="x" * 4097),
        "no metadata": _commit(right, group, (TIMED, [0]), metadata=None),
        "a negative offset": _commit(right, group, (TIMED, [0]), offset=-1),
        "no group": _commit(right, "", (TIMED, [0])),
        "nothing": _commit(right, group),
        **{
            f"generation {generation} of a group without members": _commit(
                right, group, (TIMED, [0]), generation_id=generation
            )
            for generation in (0, 1)
        },
        "a stranger in a group without members": _commit(
            right, group, (TIMED, [0]), member_id="stranger", generation_id=1
        ),
        **{
            f"generation {generation} of another": _commit(
                right, STABLE, (TIMED, [0]), **of_stable | {"generation_id": generation}
            )
            for generation in (0, 2)
        },
        "a stranger in a group": _commit(right, STABLE, (TIMED, [0]), member_id="stranger", generation_id=1),
        "a strange instance": _commit(right, STABLE, (TIMED, [0]), **of_stable, group_instance_id="i"),
        **{name: _commit(who, group, (TIMED, [0])) for name, who in _WRONG.items()},
    }


def _commit_is_harmless(request: Any) -> bool:
    """No groups come to be but those of this API, and these producers' transactions are not begun."""
    return not _is_of(request, IDLE, OPEN) and request.group_id.startswith(_OWN)


COMMIT: Final = Scenario(_COMMIT, "TxnOffsetCommit", 0, 5, _commit_cases, is_harmless=_commit_is_harmless)

# -- looking


def _topics(*topics: tuple[str, list[int]]) -> Values:
    return {"topics": [{"name": name, "partition_indexes": partitions} for name, partitions in topics]}


_WRITTEN: Final = own(_DESCRIBE_PRODUCERS, 0, "written")

DESCRIBE_PRODUCERS: Final = Scenario(
    _DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0,
    lambda version: {
        "one": _topics((_WRITTEN, [0])),
        "nobody": _topics((TIMED, [0]), (EMPTY, [0, 1])),
        "a partition twice": _topics((_WRITTEN, [0, 0])),
        "an unknown partition": _topics((_WRITTEN, [7, 0, -1])),
        "an unknown topic": _topics(("absent", [0])),
        "no name of a topic": _topics(("not a name", [0])),
        "no partitions": _topics((TIMED, [])),
        "nothing": _topics(),
    },
    fixtures=lambda version: (
        Fixture(_WRITTEN, batches=(batch(producer_id=6000, producer_epoch=3, base_sequence=0),)),
    ),
)  # fmt: skip
DESCRIBE_TRANSACTIONS: Final = Scenario(
    65, "DescribeTransactions", 0, 0,
    lambda version: {
        "an open one": {"transactional_ids": [OPEN]},
        "several": {"transactional_ids": [IDLE, "absent", OPEN]},
        "one twice": {"transactional_ids": [OPEN, OPEN]},
        "no name": {"transactional_ids": [""]},
        "none": {"transactional_ids": []},
    },
)  # fmt: skip


def _list(states: list[str] | None = None, producers: list[int] | None = None, **values: Any) -> Values:
    given = {
        "state_filters": states or [], "producer_id_filters": producers or [], "duration_filter": -1,
        "transactional_id_pattern": None,
    }  # fmt: skip
    return given | values


LIST_TRANSACTIONS: Final = Scenario(
    66, "ListTransactions", 0, 2,
    lambda version: {
        "filtered": _list(["Ongoing", "Empty"], [_id(IDLE), _id(OPEN)]),
        "all": _list(),
        "of a state": _list(["Ongoing"]),
        "of all states": _list(["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit",
                                "CompleteAbort", "Dead", "PrepareEpochFence"]),
        "of unknown states": _list(["ongoing", "Weird", ""]),
        "of some and unknown states": _list(["Empty", "Weird"]),
        "of a producer": _list(None, [_id(OPEN)]),
        "of unknown producers": _list(None, [987_654_321, -1]),
        **{f"for {duration} ms": _list(["Ongoing"], duration_filter=duration) for duration in (0, 3_600_000, -2)},
        **{f"like {pattern}": _list(transactional_id_pattern=pattern)
           for pattern in ("open-.*", "open", "", ".*-producer", "(", "[", "o{,3}", "(?i)OPEN-PRODUCER")},
    },
)  # fmt: skip
