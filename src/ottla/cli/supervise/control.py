"""How `ottla node` talks to the supervisor of a data folder: a line of JSON each way, over a socket in that folder.

Only who may use the folder's files can reach it: the socket is its owner's alone (0600), and nothing of it is on a
network. Paths of sockets must be short, so both sides go into the folder for the moment of binding and connecting.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

NAME: Final = "ottla.sock"
VERBS: Final = ("list", "start", "stop", "restart", "kill")
_LONGEST: Final = 4096


def listen(folder: Path) -> socket.socket:
    """The caller holds the folder's pid file, so a socket that is there was left behind."""
    listener = socket.socket(socket.AF_UNIX)
    with _inside(folder):
        Path(NAME).unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            listener.bind(NAME)
        finally:
            os.umask(before)
    listener.listen(16)
    listener.setblocking(False)
    return listener


def remove(folder: Path) -> None:
    (folder / NAME).unlink(missing_ok=True)


def ask(folder: Path, verb: str, node: int | None, within_s: float) -> dict[str, Any]:
    """OttlaError if there is no supervisor, or it could not do it."""
    from ottla.model.errors import OttlaError

    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(within_s)
        try:
            with _inside(folder):
                client.connect(NAME)
            client.sendall(json.dumps({"do": verb, "node": node}).encode() + b"\n")
            answer = _line(client)
        except TimeoutError:
            raise OttlaError(f"it is not done after {within_s:g} s; `ottla node list` shows how it is") from None
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            raise OttlaError(
                f"no cluster runs on {folder}; `ottla up --brokers 3` starts one, and --data names another folder"
            ) from None
        except OSError as error:
            raise OttlaError(f"cannot talk to the supervisor of {folder}: {error.strerror or error}") from None
    if not answer:
        raise OttlaError(f"the supervisor of {folder} ended before it answered")
    told: dict[str, Any] = json.loads(answer)
    if "error" in told:
        raise OttlaError(str(told["error"]))
    return told


class Asking:
    """A client at the supervisor's end: what it asks for, once its line is there."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self._read = b""

    def receive(self) -> tuple[str, int | None] | None:
        """What is asked for; None if more must come. ValueError if it is nothing that can be asked, or has gone."""
        piece = self.connection.recv(_LONGEST)
        self._read += piece
        line, newline, _ = self._read.partition(b"\n")
        if not newline:
            if not piece or len(self._read) > _LONGEST:
                raise ValueError("it has gone")
            return None
        asked: Any = json.loads(line)
        if not isinstance(asked, dict) or asked.get("do") not in VERBS:
            raise ValueError(f"what can be asked is {', '.join(VERBS)}")
        node = asked.get("node")
        return str(asked["do"]), None if node is None else int(node)

    def answer(self, told: dict[str, Any]) -> None:
        try:
            self.connection.sendall(json.dumps(told).encode() + b"\n")
        except OSError:
            pass  # who asked has gone
        self.connection.close()


def _line(client: socket.socket) -> bytes:
    read = b""
    while not read.endswith(b"\n"):
        piece = client.recv(65536)
        if not piece:
            return b""
        read += piece
    return read


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    back = os.open(".", os.O_RDONLY)
    try:
        os.chdir(folder)
        try:
            yield
        finally:
            os.fchdir(back)
    finally:
        os.close(back)
