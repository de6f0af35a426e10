"""How a record is printed: a template as kcat has it, compiled once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import click

DEFAULT_FORMAT: Final = r"%s\n"

_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_PIECE: Final = re.compile(r"%(.?)|\\(.?)|[^%\\]+", re.DOTALL)

Part = Callable[[Any], bytes]


def _headers(message: Any) -> bytes:
    pairs = message.headers() or []
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in pairs)


_FIELDS: Final[dict[str, Part]] = {
    "k": lambda message: message.key() or b"",
    "K": lambda message: str(-1 if message.key() is None else len(message.key())).encode(),
    "s": lambda message: message.value() or b"",
    "S": lambda message: str(-1 if message.value() is None else len(message.value())).encode(),
    "t": lambda message: str(message.topic()).encode(),
    "p": lambda message: str(message.partition()).encode(),
    "o": lambda message: str(message.offset()).encode(),
    "T": lambda message: str(message.timestamp()[1]).encode(),
    "h": _headers,
    "%": lambda message: b"%",
}


def compile_format(template: str) -> Callable[[Any], bytes]:
    """Gives the bytes for a message of confluent-kafka (or what has its methods)."""
    parts: list[Part] = []
    for piece in _PIECE.finditer(template):
        field, escape = piece.group(1), piece.group(2)
        if field is not None:
            if field not in _FIELDS:
                raise click.UsageError(f"-f {template}: %{field} is none of {' '.join(f'%{name}' for name in _FIELDS)}")
            parts.append(_FIELDS[field])
        else:
            text = _ESCAPES.get(escape, escape.encode()) if escape is not None else piece.group().encode()
            parts.append(lambda message, text=text: text)  # type: ignore[misc]
    return lambda message: b"".join([part(message) for part in parts])
