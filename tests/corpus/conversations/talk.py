"""One conversation: clients by name, what they say, and what they hear, written down without any server's own ids."""

from __future__ import annotations

import re
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from enum import Enum
from types import TracebackType
from typing import Any, Final
from uuid import UUID

from tests.interop.raw import Raw, frame
from tests.waiting import PATIENCE_S

from ottla.broker.apis.registry import ALL
from ottla.wire import codec

SILENT: Final = "silent"  # for now
WAITS: Final = "waits"  # too long: the client has hung up
CLOSED: Final = "closed"
Plain = Any  # what JSON can hold
Line = tuple[str, Plain]  # who asked what, and the answer

_NAMES: Final = {api.key: api.name for api in ALL}
_LEFT_OUT: Final = {"throttle_time"}
_WORDS: Final = {"error_message"}  # only whether there are any
_ID: Final = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![\w-])[\w-]{22}(?![\w-])"
)  # as Java or Kafka write it
_NOW_MS: Final = 50  # in which one who need not wait is answered; on a busy machine silence is only more likely


class Talk:
    """`lines` is what was said so far."""

    def __init__(self, port: int, prefix: str, topic_ids: Mapping[str, UUID]) -> None:
        self.lines: list[Line] = []
        self.topic_ids = topic_ids
        self._port = port
        self._prefix = prefix
        self._clients: dict[str, Raw] = {}
        self._asked: dict[str, tuple[int, int]] = {}  # by client: what it waits for an answer to
        self._ids: dict[str, str] = {str(value): name for name, value in topic_ids.items()}

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for client in self._clients.values():
            client.socket.close()

    def group(self, name: str = "group") -> str:
        """A group's id that no other conversation uses."""
        return f"{self._prefix} {name}"

    # -- talking

    def say(self, who: str, api: int, version: int, **values: Any) -> None:
        if who not in self._clients:
            self._clients[who] = Raw(self._port, PATIENCE_S)
        self._clients[who].send(frame(api, version, **values))
        self._asked[who] = (api, version)

    def hear(self, who: str) -> Any:
        api, version = self._asked[who]
        answer = self._receive(who)
        self._write(who, api, version, answer)
        return answer

    def ask(self, who: str, api: int, version: int, **values: Any) -> Any:
        self.say(who, api, version, **values)
        return self.hear(who)

    def is_silent(self, who: str) -> None:
        """Writes down that the client still waits for its answer."""
        api, version = self._asked[who]
        ready, _, _ = select.select([self._clients[who].socket], [], [], _NOW_MS / 1000)
        if ready:
            self._write(who, api, version, self._receive(who))
        else:
            self.lines.append((f"{who}: {_NAMES[api]} {version}", SILENT))

    def ask_until(self, who: str, holds: Callable[[Any], bool], api: int, version: int, **values: Any) -> Any:
        """Asks until the answer is as it should be, and writes down that one alone."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self.murmur(who, api, version, **values)
            if holds(answer) or time.monotonic() > deadline:
                self._write(who, api, version, answer)
                return answer

    def murmur(self, who: str, api: int, version: int, **values: Any) -> Any:
        """Asks again what may have to be asked any number of times: it is not written down."""
        time.sleep(0.02)
        self.say(who, api, version, **values)
        return self._receive(who)

    def hang_up(self, who: str) -> None:
        self._clients.pop(who).socket.close()

    def _receive(self, who: str) -> Any:
        api, version = self._asked[who]
        try:
            data = self._clients[who].receive_frame()
        except ConnectionError:
            self.hang_up(who)
            return CLOSED
        except TimeoutError:
            self.hang_up(who)
            return WAITS
        return codec.decode_response(api, version, data[codec.response_body_position(api, version, data) :])

    # -- writing down

    def _write(self, who: str, api: int, version: int, answer: Any) -> None:
        own = getattr(answer, "member_id", "") or ""
        for found in _ID.findall(own):
            self._ids.setdefault(found, f"#{len(self._ids) - len(self.topic_ids) + 1}")
        self.lines.append((f"{who}: {_NAMES[api]} {version}", self._plain(answer)))

    def _plain(self, value: Any, name: str = "") -> Plain:
        if is_dataclass(value):
            named = [(field.name, getattr(value, field.name)) for field in fields(value)]
            return {key: self._plain(item, key) for key, item in named if key not in _LEFT_OUT}
        if isinstance(value, tuple):
            items = [self._plain(item) for item in value if not self._is_anothers(item)]
            return sorted(items, key=repr)
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, UUID):
            return self._ids.get(str(value), str(value))
        if isinstance(value, bytes | memoryview):
            return self._named(bytes(value).decode("latin-1"))
        if isinstance(value, timedelta):
            return value // timedelta(milliseconds=1)
        if name in _WORDS:
            return "words" if value else value
        return self._named(value) if isinstance(value, str) else value

    def _named(self, text: str) -> str:
        return _ID.sub(lambda found: self._ids.get(found[0], "an id"), text.removeprefix(f"{self._prefix} "))

    def _is_anothers(self, item: Any) -> bool:
        """ListGroups tells of the groups of all conversations."""
        is_listed = hasattr(item, "protocol_type") and not hasattr(item, "members")
        return is_listed and not item.group_id.startswith(f"{self._prefix} ")
