"""How records are printed, and which are read."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import click
import pytest

from ottla.cli.reading_range import Range, parse_range
from ottla.cli.record_format import compile_format, json_formatter, unescape


class Message(NamedTuple):
    """The part of confluent-kafka's message that is printed."""

    the_key: bytes | None = b"key"
    the_value: bytes | None = b"value"

    def key(self) -> bytes | None:
        return self.the_key

    def value(self) -> bytes | None:
        return self.the_value

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 42

    def timestamp(self) -> tuple[int, int]:
        return 1, 1234

    def headers(self) -> list[tuple[str, Any]]:
        return [("a", b"1"), ("b", None)]


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        (r"%s\n", b"value\n"),
        (r"%t-%p@%o %T %k=%s\t%h", b"t-3@42 1234 key=value\ta=1,b=NULL"),
        (r"100%% \\ %K %S", b"100% \\ 3 5"),
        (r"%R%s\x01\xff", b"\0\0\0\5value\x01\xff"),
        ("", b""),
        ("ä%s", "ävalue".encode()),
    ],
)
def test_a_record_is_printed_by_its_template(template: str, printed: bytes) -> None:
    assert compile_format(template)(Message()) == printed


def test_nulls_are_empty_with_a_length_of_minus_one() -> None:
    assert compile_format("%K:%k|%S:%s")(Message(None, None)) == b"-1:|-1:"


def test_nulls_are_named_if_wanted() -> None:
    assert compile_format("%K:%k|%S:%s", null="NULL")(Message(None, None)) == b"-1:NULL|-1:NULL"
    assert compile_format(r"%s\n", null="NULL")(Message(None, None)) == b"NULL\n"


def test_a_line_of_json_has_kcats_names() -> None:
    line = json_formatter()(Message())
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "topic": "t", "partition": 3, "offset": 42, "tstype": "create", "ts": 1234,
        "headers": ["a", "1", "b", None], "key": "key", "payload": "value",
    }  # fmt: skip


def test_what_is_no_text_is_base64_in_json() -> None:
    told = json.loads(json_formatter()(Message(None, b"\xff\x00")))
    assert (told["key"], told["payload"], told["payload_encoding"]) == (None, "/wA=", "base64")
    assert "key_encoding" not in told


EVIL = b"a\x1b[2Jb\x9bc\r\xc2\x9bd\xe2\x80\xaee\tf\n"


def test_on_a_terminal_a_record_moves_nothing_but_the_line() -> None:
    message = Message(EVIL, EVIL)
    harmless = b"a\\x1b[2Jb\\x9bc\\r\\x9bd\\u202ee\tf\n"

    assert compile_format(r"%s\n", on_terminal=True)(message) == harmless + b"\n"
    assert compile_format(r"\x1b[1m%k", on_terminal=True)(message) == b"\x1b[1m" + harmless  # the user's own
    assert compile_format(r"%s\n")(message) == EVIL + b"\n"


def test_on_a_terminal_json_says_the_same_with_escapes() -> None:
    message = Message(None, "\u202e\x7f\x9b".encode())
    seen, piped = json_formatter(on_terminal=True)(message), json_formatter()(message)

    assert b"\\u202e\\u007f\\u009b" in seen and "\u202e\x7f\x9b".encode() in piped
    assert json.loads(seen) == json.loads(piped)


def test_separators_are_typed_with_escapes() -> None:
    assert unescape(r"\t|\x01%k%") == b"\t|\x01%k%"


def test_an_unknown_field_is_refused_with_those_there_are() -> None:
    with pytest.raises(click.UsageError, match=r"%q is none of %k"):
        compile_format("%q")


NOW = 1_763_200_000_000


@pytest.mark.parametrize(
    ("offsets", "meant"),
    [
        ([], Range("end")),
        (["beginning"], Range("beginning")),
        (["stored"], Range("stored")),
        (["5"], Range(5)),
        (["-3"], Range(-3)),
        (["s@1763200000000"], Range("end", from_ms=NOW)),
        (["s@5m ago", "e@now"], Range("end", from_ms=NOW - 300_000, until_ms=NOW)),
        (["beginning", "e@1763200000"], Range("beginning", until_ms=NOW)),
        (["e@now"], Range("beginning", until_ms=NOW)),
        (["end", "e@now"], Range("end", until_ms=NOW)),
    ],
)
def test_what_to_read_is_said_as_with_kcat(offsets: list[str], meant: Range) -> None:
    assert parse_range(offsets, None, None, NOW) == meant


@pytest.mark.parametrize(
    ("offsets", "start"),
    [([], "beginning"), (["e@now"], "beginning"), (["-5"], -5), (["end"], "end"), (["stored"], "stored")],
)
def test_to_end_at_the_end_is_from_the_beginning_unless_told_otherwise(offsets: list[str], start: int | str) -> None:
    assert parse_range(offsets, None, None, NOW, exit_at_end=True).start == start


@pytest.mark.parametrize(
    ("offsets", "complaint"),
    [
        (["middle"], "must be beginning, end, stored"),
        (["begining"], "did you mean beginning"),
        (["s@yesterday"], "is not a time"),
        (["1", "2"], "one start only"),
        (["1", "s@5"], "exclude each other"),
        (["s@now", "e@5m ago"], "the end is before the start"),
    ],
)
def test_what_cannot_be_read_is_refused(offsets: list[str], complaint: str) -> None:
    with pytest.raises(click.UsageError, match=complaint):
        parse_range(offsets, None, None, NOW)
