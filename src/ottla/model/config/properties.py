"""Java's properties files (server.properties), with the line of each entry for messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ottla.model.config_error import ConfigError, raise_any


class Property(NamedTuple):
    name: str
    value: str
    line: int


class PropertiesFile(NamedTuple):
    """The entries of a file, the last of a name winning, and where each one stands."""

    path: str
    values: dict[str, str]
    where: dict[str, str]


def load_properties(path: str | Path) -> PropertiesFile:
    """Reads a file; ConfigError tells why it cannot be read. UTF-8, or Latin-1 as Java would, if it is not that."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError("", None, f"cannot read {path}: {error.strerror or error}") from error
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    values: dict[str, str] = {}
    where: dict[str, str] = {}
    for entry in parse_properties(text, str(path)):
        values[entry.name] = entry.value
        where[entry.name] = f"{path}, line {entry.line}"
    return PropertiesFile(str(path), values, where)


def parse_properties(text: str, source: str = "properties") -> Iterator[Property]:
    """ConfigError, after all that can be read, for what cannot."""
    wrong: list[ConfigError] = []
    for number, line in _logical_lines(text):
        separator = _NAME_END.match(line)
        assert separator is not None  # matches the empty string too
        rest = line[separator.end() :].lstrip(_BLANK)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANK)
        try:
            yield Property(_unescape(separator.group()), _unescape(rest), number)
        except ValueError as error:
            wrong.append(ConfigError("", None, str(error), f"{source}, line {number}"))
    raise_any(wrong)


_BLANK: Final = " \t\f"
_NAME_END: Final = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u.{0,4}|.|\Z)", re.DOTALL)
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined where one ends with an odd number of backslashes; blank ones and comments left out."""
    pending, first = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = raw.lstrip(_BLANK)
        if not first and (not line or line[0] in "#!"):
            continue
        first = first or number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield first, pending + line
        pending, first = "", 0
    if first and pending:
        yield first, pending


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        body = match.group(1)
        if body[:1] != "u":
            return _CONTROL.get(body, body)
        if len(body) != 5 or not all(digit in "0123456789abcdefABCDEF" for digit in body[1:]):
            raise ValueError(f"\\{body} is not four hexadecimal digits after \\u")
        return chr(int(body[1:], 16))

    return _ESCAPE.sub(replace, text)
