"""Records from what a user gives `ottla produce`: arguments, lines, whole files, lines of JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.cli.output import note
from ottla.model.errors import OttlaError

_PIECE: Final = 1 << 16
LONGEST: Final = 1_000_000_000  # bytes: no client sends a longer record


class Input(NamedTuple):
    """One record as it came, and where, for complaints."""

    data: bytes
    where: str


class NewRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp: int | None = None


class Splitting(NamedTuple):
    """What makes a record of a line."""

    key_separator: bytes | None = None
    key: bytes | None = None
    """The key of all records."""
    tombstone: bool = False
    """The line is a key, and the value null."""
    empty_is_null: bool = False
    null_marker: bytes | None = None


def inputs(values: Sequence[str], files: Sequence[str], delimiter: bytes, *, whole: bool) -> Iterator[Input]:
    """`-` is standard input, which is read too if there is nothing else."""
    for number, value in enumerate(values, start=1):
        yield Input(value.encode("utf-8", "surrogateescape"), f"value {number}")
    if values and not files:
        return
    for name in files or ("-",):
        if name == "-" and sys.stdin.isatty():
            note("One record a line; Ctrl-D ends." if not whole else "One record; Ctrl-D ends it.")
        try:
            if name == "-":
                yield from _of_file(sys.stdin.buffer, "", delimiter, whole=whole)
            else:
                with open(name, "rb") as file:
                    yield from _of_file(file, f"{name}, ", delimiter, whole=whole)
        except OSError as error:
            raise OttlaError(f"cannot read {name}: {error.strerror}") from None


def _of_file(file: Any, name: str, delimiter: bytes, *, whole: bool) -> Iterator[Input]:
    if whole:
        where = name.removesuffix(", ") or "the input"
        yield Input(_short_enough(file.read(LONGEST + 1), where), where)
        return
    lines = iter(partial(file.readline, LONGEST + 1), b"") if delimiter == b"\n" else _split(file, delimiter)
    for number, line in enumerate(lines, start=1):
        _short_enough(line, f"{name}line {number}")
        data = line.removesuffix(delimiter)
        yield Input(data.removesuffix(b"\r") if delimiter == b"\n" else data, f"{name}line {number}")


def _short_enough(data: bytes, where: str) -> bytes:
    """What never ends must not fill the memory."""
    if len(data) > LONGEST:
        raise OttlaError(f"{where} is longer than a record can be ({LONGEST} bytes)")
    return data


def _split(file: Any, delimiter: bytes) -> Iterator[bytes]:
    rest = b""
    while len(rest) <= LONGEST and (piece := file.read1(_PIECE)):
        *whole, rest = (rest + piece).split(delimiter)
        yield from whole
    if rest:
        yield rest


def split_records(found: Iterable[Input], how: Splitting) -> Iterator[NewRecord]:
    for data, where in found:
        yield split_record(data, where, how)


def split_record(data: bytes, where: str, how: Splitting) -> NewRecord:
    """OttlaError for a line without the separator: a record with the wrong key is worse than none."""
    if how.tombstone:
        return NewRecord(data, None)
    key, value = how.key, data
    if how.key_separator:
        key, found, value = data.partition(how.key_separator)
        if not found:
            raise OttlaError(
                f"{where} has no {how.key_separator.decode(errors='replace')!r} between key and value"
                f"{': ' + repr(data[:60].decode(errors='replace')) if data else ''}"
            )
    return NewRecord(_or_null(key, how), _or_null(value, how))


def _or_null(data: bytes | None, how: Splitting) -> bytes | None:
    if data == how.null_marker or (how.empty_is_null and not data):
        return None
    return data


def json_records(found: Iterable[Input]) -> Iterator[NewRecord]:
    """Each a JSON object as `ottla consume -J` and kcat print it; whatever is not text is sent as compact JSON."""
    import json

    for data, where in found:
        if not data.strip():
            continue
        try:
            envelope = json.loads(data)
        except ValueError as error:
            raise OttlaError(f"{where} is not JSON: {error}") from None
        if not isinstance(envelope, dict):
            raise OttlaError(f'{where} is not a JSON object such as {{"key":"k","payload":"v"}}')
        try:
            yield _of_envelope(envelope)
        except (ValueError, TypeError) as error:
            raise OttlaError(f"{where}: {error}") from None


_KNOWN: Final = frozenset(
    {"topic", "partition", "offset", "broker", "tstype", "ts", "timestamp", "headers"}
    | {"key", "key_encoding", "payload", "payload_encoding", "value", "value_encoding"}
)


def _of_envelope(envelope: dict[str, Any]) -> NewRecord:
    unknown = sorted(set(envelope) - _KNOWN)
    if unknown:
        raise ValueError(f"there is no field {unknown[0]}, only {', '.join(sorted(_KNOWN))}")
    name = "value" if "value" in envelope else "payload"
    if name not in envelope:
        raise ValueError("it has neither payload nor value; null makes a tombstone")
    timestamp = envelope.get("ts", envelope.get("timestamp"))
    partition = envelope.get("partition")
    for number in (timestamp, partition):
        if number is not None and type(number) is not int:
            raise ValueError(f"{number!r} is not a whole number")
    return NewRecord(
        _bytes(envelope, "key"),
        _bytes(envelope, name),
        _headers(envelope.get("headers")),
        partition,
        timestamp if timestamp is None or timestamp >= 0 else None,
    )


def _bytes(envelope: dict[str, Any], name: str) -> bytes | None:
    value, encoding = envelope.get(name), envelope.get(f"{name}_encoding")
    if encoding is not None:
        from base64 import b64decode

        if encoding != "base64" or not isinstance(value, str):
            raise ValueError(f"{name}_encoding can be base64 only, of a text")
        return b64decode(value, validate=True)
    return _plain(value)


def _plain(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _headers(given: Any) -> tuple[tuple[str, bytes | None], ...]:
    """A flat list of names and values, as kcat has it, or an object."""
    if not given:
        return ()
    if isinstance(given, dict):
        return tuple((name, _plain(value)) for name, value in given.items())
    if not isinstance(given, list) or len(given) % 2 or not all(isinstance(name, str) for name in given[::2]):
        raise ValueError("headers must be an object, or a list of names and values in turn")
    return tuple((name, _plain(value)) for name, value in zip(given[::2], given[1::2], strict=True))
