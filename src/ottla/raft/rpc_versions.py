"""Older versions of the quorum's messages, to the newest one, which rpc.py speaks, and back, at both ends.

What an older request does not say has the default of the newest; what an older answer has no place for is left out.
Before version 13 a Fetch names its topic, before 15 the replica stands in another place.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, Final
from uuid import UUID

from ottla.model.names import METADATA_TOPIC, METADATA_TOPIC_ID
from ottla.wire.build import build, request_type, response_type

NEWEST: Final = {1: 18, 52: 2, 53: 1, 54: 1, 59: 1, 80: 1, 81: 0, 82: 0}
_FETCH: Final = 1
_END: Final = 54
_ABOUT_LEADERS: Final = (52, 53, _END)
_NOBODY: Final = -1
_UNSAID: Final = {"replica_directory_id": UUID(int=0), "voter_directory_id": UUID(int=0), "pre_vote": False}
_ANOTHER_TOPIC: Final = UUID(int=0)


def upgraded(entity: Any) -> Any:
    key, version = int(entity.__api_key__), int(entity.__version__)
    if version == NEWEST[key]:
        return entity
    values = _values(entity)
    if key == _FETCH:
        values.setdefault("forgotten_topics_data", [])
        if "replica_id" in values:
            values["replica_state"] = {"replica_id": values["replica_id"]}
        for topic in values["topics"]:
            if "topic_id" not in topic:
                topic["topic_id"] = METADATA_TOPIC_ID if topic["topic"] == METADATA_TOPIC else _ANOTHER_TOPIC
    elif key in _ABOUT_LEADERS:
        values = {"voter_id": _NOBODY, "leader_endpoints": [], **values}
        for topic in values["topics"]:
            topic["partitions"] = [_UNSAID | _candidates(row) | row for row in topic["partitions"]]
    return build(request_type(key, NEWEST[key]), values)


def _candidates(row: dict[str, Any]) -> dict[str, Any]:
    """Before version 1 of EndQuorumEpoch they have no directories."""
    ids = row.get("preferred_successors", ())
    return {
        "preferred_candidates": [{"candidate_id": each, "candidate_directory_id": UUID(int=0)} for each in ids],
    }


def downgraded(entity: Any, version: int) -> Any:
    key = int(entity.__api_key__)
    if version == NEWEST[key]:
        return entity
    values = _values(entity)
    if key == _FETCH:
        for topic in values["responses"]:
            topic["topic"] = METADATA_TOPIC
    return build(response_type(key, version), values)


def older_request(entity: Any, version: int) -> Any:
    """For another that does not know the newest one."""
    key = int(entity.__api_key__)
    if version == int(entity.__version__):
        return entity
    values = _values(entity)
    if key == _END:
        for topic in values["topics"]:
            for row in topic["partitions"]:
                row["preferred_successors"] = [each["candidate_id"] for each in row["preferred_candidates"]]
    if key == _FETCH:
        values["replica_id"] = values["replica_state"]["replica_id"]
        for topic in values["topics"]:
            topic["topic"] = METADATA_TOPIC
    return build(request_type(key, version), values)


def newest_response(entity: Any) -> Any:
    """What such a one answers, as the newest would say it."""
    key, version = int(entity.__api_key__), int(entity.__version__)
    if version == NEWEST.get(key, version):
        return entity
    values = {"node_endpoints": [], **_values(entity)}
    if key == _FETCH:
        for topic in values["responses"]:
            topic.setdefault("topic_id", METADATA_TOPIC_ID)
    return build(response_type(key, NEWEST[key]), values)


def _values(entity: Any) -> Any:
    if is_dataclass(entity):
        return {field.name: _values(getattr(entity, field.name)) for field in fields(entity)}
    if isinstance(entity, tuple):
        return [_values(item) for item in entity]
    return entity
