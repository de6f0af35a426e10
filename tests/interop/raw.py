"""A connection without a client's manners: frames as they are, whole, in pieces or broken."""

from __future__ import annotations

import select
import socket
from datetime import timedelta
from itertools import count
from typing import Any

from tests.waiting import PATIENCE_S

from ottla.wire import codec
from ottla.wire.build import build, request_type

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
_numbers = count(1)


def frame(api: int, version: int, **values: Any) -> bytes:
    """A whole request, size included; values are those of the newest version, as `wire.build` takes them."""
    return framed(api, version, codec.encode_body(build(request_type(api, version), values)))


def framed(api: int, version: int, body: bytes, client_id: str = "raw") -> bytes:
    data = codec.request_header(api, version, next(_numbers) & 0x7FFFFFFF, client_id) + body
    return len(data).to_bytes(4, "big") + data


class Raw:
    """Blocking; `with Raw(node.port) as raw`."""

    def __init__(self, port: int, timeout: float = PATIENCE_S, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect(("127.0.0.1", port))

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionResetError("the node closed the connection")
            data += piece
        return bytes(data)

    def receive_frame(self) -> bytes:
        return self.receive(int.from_bytes(self.receive(4), "big", signed=True))

    def ask(self, api: int, version: int, **values: Any) -> Any:
        """The answer as kio's entity."""
        self.send(frame(api, version, **values))
        return self.receive_answer(api, version)

    def receive_answer(self, api: int, version: int) -> Any:
        answer = self.receive_frame()
        return codec.decode_response(api, version, answer[codec.response_body_position(api, version, answer) :])

    def has_something(self) -> bool:
        """Whether something has come that was not read yet."""
        return bool(select.select([self.socket], [], [], 0)[0])

    def is_closed_by_node(self) -> bool:
        """Waits for the end of the connection; what the node still sends is thrown away."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True


def fetch_values(
    offsets: dict[tuple[str, int], int], *, max_wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 50_000_000,
    partition_max_bytes: int = 1_000_000, session: tuple[int, int] = (0, -1),
    forgotten: tuple[tuple[str, int], ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """For Fetch up to version 12, by topic names."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), offset in offsets.items():
        row = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": partition_max_bytes}
        topics.setdefault(topic, []).append(row)
    return {
        "max_wait": timedelta(milliseconds=max_wait_ms), "min_bytes": min_bytes, "max_bytes": max_bytes,
        "isolation_level": 0, "session_id": session[0], "session_epoch": session[1], "rack_id": "",
        "topics": [{"topic": topic, "partitions": rows} for topic, rows in topics.items()],
        "forgotten_topics_data": [{"topic": topic, "partitions": [number]} for topic, number in forgotten],
    }  # fmt: skip


def produce_values(topic: str, batch: bytes, *, partition: int = 0, acks: int = -1) -> dict[str, Any]:
    """For Produce up to version 12, by topic name."""
    rows = [{"index": partition, "records": batch}]
    return {
        "transactional_id": None, "acks": acks, "timeout": timedelta(seconds=10),
        "topic_data": [{"name": topic, "partition_data": rows}],
    }  # fmt: skip
