"""How a record is printed: a template as kcat has it, compiled once, or a line of JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import click

DEFAULT_FORMAT: Final = r"%s\n"

_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_PIECE: Final = re.compile(r"%(.?)|\\x([0-9A-Fa-f]{2})|\\(.?)|[^%\\]+", re.DOTALL)
_TIMESTAMP_TYPES: Final = {1: "create", 2: "logappend"}

Part = Callable[[Any], bytes]
Formatter = Callable[[Any], bytes]


def unescape(text: str) -> bytes:
    r"""A separator as it is typed: \t, \n, \x01."""
    return b"".join(_literal(piece) or b"%" + (piece.group(1) or "").encode() for piece in _PIECE.finditer(text))


def _literal(piece: re.Match[str]) -> bytes | None:
    field, code, escape = piece.groups()
    if field is not None:
        return None
    if code is not None:
        return bytes.fromhex(code)
    return _ESCAPES.get(escape, escape.encode()) if escape is not None else piece.group().encode()


def _headers(message: Any) -> bytes:
    pairs = message.headers() or []
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in pairs)


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _fields(null: bytes) -> dict[str, Part]:
    return {
        "k": lambda message: null if (key := message.key()) is None else key,
        "K": lambda message: str(_size(message.key())).encode(),
        "s": lambda message: null if (value := message.value()) is None else value,
        "S": lambda message: str(_size(message.value())).encode(),
        "R": lambda message: _size(message.value()).to_bytes(4, "big", signed=True),
        "t": lambda message: str(message.topic()).encode(),
        "p": lambda message: str(message.partition()).encode(),
        "o": lambda message: str(message.offset()).encode(),
        "T": lambda message: str(message.timestamp()[1]).encode(),
        "h": _headers,
        "%": lambda message: b"%",
    }


def compile_format(template: str, *, null: str = "", on_terminal: bool = False) -> Formatter:
    """Gives the bytes for a message of confluent-kafka (or what has its methods); `null` stands for what is null.

    On a terminal, what a record brings is made harmless; what the template itself says is the user's own.
    """
    fields = _fields(null.encode())
    if on_terminal:
        fields = {name: _harmless(part) for name, part in fields.items()}
    parts: list[Part] = []
    for piece in _PIECE.finditer(template):
        text = _literal(piece)
        if text is None:
            field = piece.group(1)
            if field not in fields:
                raise click.UsageError(f"-f {template}: %{field} is none of {' '.join(f'%{name}' for name in fields)}")
            parts.append(fields[field])
        else:
            parts.append(lambda message, text=text: text)  # type: ignore[misc]
    if template == DEFAULT_FORMAT and not null and not on_terminal:
        return lambda message: (message.value() or b"") + b"\n"
    return lambda message: b"".join([part(message) for part in parts])


def _harmless(part: Part) -> Part:
    from ottla.cli.terminal_text import record_bytes

    return lambda message: record_bytes(part(message))


def json_formatter(*, on_terminal: bool = False) -> Formatter:
    """A line of JSON for each record, with kcat's names. `ottla produce -J` reads it back.

    What is no UTF-8 is told in base64, and so is what encoding it has: `"payload_encoding": "base64"`.
    """
    from json import JSONEncoder

    from ottla.cli.terminal_text import json_text

    encode = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

    def line(message: Any) -> bytes:
        kind, timestamp = message.timestamp()
        envelope: dict[str, Any] = {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "tstype": _TIMESTAMP_TYPES.get(kind, "unknown"),
            "ts": timestamp,
        }
        headers = message.headers()
        if headers:
            flat: list[str | None] = []
            for name, value in headers:
                # kcat's flat list has no place for an encoding: what is no text is told with replacements
                flat += [name, None if value is None else value.decode(errors="replace")]
            envelope["headers"] = flat
        put_text(envelope, "key", message.key())
        put_text(envelope, "payload", message.value())
        text = encode(envelope)
        return (json_text(text) if on_terminal else text).encode() + b"\n"

    return line


def put_text(envelope: dict[str, Any], name: str, data: bytes | None) -> None:
    try:
        envelope[name] = None if data is None else data.decode()
    except UnicodeDecodeError:
        from base64 import b64encode

        envelope[name] = b64encode(data or b"").decode()
        envelope[f"{name}_encoding"] = "base64"
