"""ConsumerGroupHeartbeat, ConsumerGroupDescribe. What comes of several requests is in `tests/corpus/conversations`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from tests.corpus.scenarios.scenario import (
    FETCHED,
    STABLE,
    STABLE_MEMBER,
    TIMED,
    Cases,
    Scenario,
    Values,
    own,
    stand_in,
)

_HEARTBEAT: Final = 68
_JOINED: Final = "joined"


def _beat(group: str, epoch: int = 1, member: str = "m", **values: Any) -> Values:
    given = {
        "group_id": group, "member_id": member, "member_epoch": epoch, "instance_id": None, "rack_id": None,
        "rebalance_timeout": timedelta(milliseconds=-1), "subscribed_topic_names": None,
        "subscribed_topic_regex": None, "server_assignor": None, "topic_partitions": None,
    }  # fmt: skip
    return given | values


def _join(group: str, **values: Any) -> Values:
    given: Values = {
        "rebalance_timeout": timedelta(seconds=10),
        "subscribed_topic_names": [TIMED],
        "topic_partitions": [],
    }
    return _beat(group, 0, **given | values)


def _beat_cases(version: int) -> Cases:
    def group(name: str) -> str:
        return own(_HEARTBEAT, version, name)

    absent = group("absent")
    owned = [{"topic_id": stand_in(TIMED), "partitions": [0]}]
    everything: Values = {"rack_id": "r", "instance_id": "i", "server_assignor": "range", "topic_partitions": owned,
                  "rebalance_timeout": timedelta(seconds=1), "subscribed_topic_names": [TIMED],
                  "subscribed_topic_regex": "t.*"}  # fmt: skip
    return {
        "a stranger": _beat(absent),
        "a stranger that says much": _beat(absent, **everything),
        "a member of a classic group": _beat(STABLE, member=STABLE_MEMBER),
        "a member of a group with offsets": _beat(FETCHED),
        "no member": _beat(absent, member=""),
        "no group": _beat(""),
        "a static stranger": _beat(absent, instance_id="i"),
        "leaves": _beat(absent, -1),
        "leaves for a while": _beat(absent, -2, instance_id="i"),
        "leaves for a while without instance": _beat(absent, -2),
        "an epoch that is none": _beat(absent, -3),
        "joins": _join(group(_JOINED)),
        "joins without topics": _join(absent, subscribed_topic_names=None),
        "joins without time": _join(absent, rebalance_timeout=timedelta(milliseconds=-1)),
        "joins with partitions": _join(absent, topic_partitions=owned),
        "joins without saying which it has": _join(absent, topic_partitions=None),
        "joins with a strange assignor": _join(absent, server_assignor="nonsense"),
        "joins with an empty instance": _join(absent, instance_id=""),
        "joins with an empty rack": _join(absent, rack_id=""),
        "joins without a name": _join(absent, member_id="") if version >= 1 else _join(absent, rack_id=""),
        "joins without group": _join(""),
        **({"joins with a broken pattern": _join(absent, subscribed_topic_regex="(")} if version >= 1 else {}),
    }


def _beat_is_harmless(request: Any) -> bool:
    """Nobody joins by chance: what is told to a member depends on when its session ran out."""
    return request.member_epoch != 0 and not request.group_id.endswith(_JOINED)


CONSUMER_GROUP_HEARTBEAT: Final = Scenario(
    _HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, _beat_cases, is_harmless=_beat_is_harmless
)


def _describe(*groups: str, operations: bool = False) -> Values:
    return {"group_ids": list(groups), "include_authorized_operations": operations}


CONSUMER_GROUP_DESCRIBE: Final = Scenario(
    69, "ConsumerGroupDescribe", 0, 1,
    lambda version: {
        "a classic group": _describe(STABLE),
        "operations": _describe(STABLE, operations=True),
        "a group with offsets alone": _describe(FETCHED),
        "absent groups": _describe("absent", STABLE, "absent", operations=True),
        "no name": _describe(""),
        "none": _describe(),
    },
)  # fmt: skip
