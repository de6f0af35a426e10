"""What an answer says, without what differs between any two servers: ids, times, ports, paths, somebody's wording."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from hashlib import sha1
from typing import Any, Final
from uuid import UUID

from tests.corpus.player import Ending
from tests.corpus.scenarios.scenario import STABLE_MEMBER, stand_in
from tests.corpus.world import COMMON_NAMES, fixtures

from ottla.wire.codec import MalformedRequest, decode_response

Plain = Any  # what JSON can hold

_LEFT_OUT: Final = {"throttle_time"}
# Only whether there is one: the words are everybody's own.
_TEXTS: Final = {"error_message", "documentation", "batch_index_error_message"}
_TIMES_AND_PLACES: Final = {"port", "log_dir", "finalized_features_epoch"}
_OF_ONE_API: Final[dict[int, set[str]]] = {
    0: {"log_append_time"},
    1: {"session_id"},
    22: {"producer_id"},
    35: {"total_bytes", "usable_bytes"},
    71: {"subscription_id"},
    61: {"last_timestamp"},
    65: {"transaction_start_time"},
    55: {"log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp", "high_watermark", "leader_epoch"},
}
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LOGGER: Final = 6  # the source of a logger's level
# Configs whose values are a server's own, and so is where they come from.
_OWN_VALUES: Final = {
    "advertised.listeners", "controller.listener.names", "controller.quorum.voters", "listeners", "log.dir", "log.dirs",
    "listener.security.protocol.map", "metadata.log.dir",
}  # fmt: skip
_MAY_BE_ANY: Final = {"producer_id", "subscription_id"}  # 0 and negative ones are as good as others
# Answers about everything there is: topics of other requests are left out of them.
_NAMED_BY: Final = {
    3: "name",
    16: "group_id",
    35: "name",
    43: "topic",
    66: "transactional_id",
    74: "resource_name",
    75: "name",
}
_KNOWN_IDS: Final = frozenset(stand_in(fixture.name) for fixture in fixtures())


def outcome(key: int, version: int, request: bytes, answer: bytes | Ending) -> Plain:
    """`closed` and the like, or the answer's fields."""
    if isinstance(answer, Ending):
        return answer.value
    try:
        entity = decode_response(key, version, answer)
    except MalformedRequest:
        return Ending.GARBLED.value
    return _Reader(key, request).plain(entity)


def outcome_class(outcome: Plain) -> str:
    """What kind of outcome it is: the error codes in an answer, wherever they stand, each once."""
    if isinstance(outcome, str):
        return outcome
    found: set[str] = set()
    _collect(outcome, "", found)
    return " ".join(sorted(found)) or "answered"


def _collect(value: Plain, path: str, found: set[str]) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            if name.endswith("error_code"):
                found.add(f"{path}{item}")
            elif isinstance(item, dict | list):
                _collect(item, f"{path}{name[0]}.", found)
    elif isinstance(value, list):
        for item in value:
            _collect(item, path, found)


class _Reader:
    def __init__(self, key: int, request: bytes) -> None:
        self._request = request
        self._request_text = request.decode(errors="replace")
        self._known = self._request_text + STABLE_MEMBER
        self._volatile = _TIMES_AND_PLACES | _OF_ONE_API.get(key, set())
        self._named_by = _NAMED_BY.get(key)

    def plain(self, value: Any, name: str = "") -> Plain:
        if is_dataclass(value):
            found = {
                field.name: self.plain(getattr(value, field.name), field.name)
                for field in fields(value)
                if field.name not in _LEFT_OUT
            }
            if found.get("name") in _OWN_VALUES or found.get("config_source") == _LOGGER:
                return {"name": found["name"]}
            return found
        if isinstance(value, tuple):
            items = [self.plain(item, name) for item in value]
            kept = [item for item in items if not self._is_anothers(item)]
            return sorted(kept, key=repr) if kept and isinstance(kept[0], dict) else kept
        if name in self._volatile:
            return "some" if name in _MAY_BE_ANY and value != -1 else _volatile(value)
        if name in _TEXTS:
            return "text" if value else value
        return self._single(value)

    def _single(self, value: Any) -> Plain:
        if isinstance(value, UUID):
            return str(value) if value in _KNOWN_IDS or value.bytes in self._request else "an id"
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, bytes | memoryview):
            return f"{len(value)} bytes {sha1(value, usedforsecurity=False).hexdigest()[:12]}"
        if isinstance(value, timedelta):
            return value // timedelta(milliseconds=1)
        if isinstance(value, datetime):
            return round(value.timestamp() * 1000)
        if isinstance(value, str):  # ids of members end with one that the server has made up
            return _UUID.sub(lambda found: found[0] if found[0] in self._known else "an id", value)
        return value

    def _is_anothers(self, item: Plain) -> bool:
        if self._named_by is None or not isinstance(item, dict):
            return False
        name = item.get(self._named_by)
        return isinstance(name, str) and name not in COMMON_NAMES and name not in self._request_text


def _volatile(value: Any) -> Plain:
    """Whether there is one; what stands for none is kept."""
    if isinstance(value, datetime | str):
        return "some" if value else value
    if isinstance(value, int) and value > 0:
        return "some"
    return value if not isinstance(value, timedelta) else "some"
