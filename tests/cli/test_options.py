"""Addresses, NAME=VALUE and record formats."""

from typing import Any, NamedTuple

import click
import pytest

from ottla.cli.address import Address, Addresses
from ottla.cli.consume import parse_start
from ottla.cli.name_value import NameValue
from ottla.cli.produce import _split
from ottla.cli.record_format import compile_format


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("h:1", (Address("h", 1),)),
        ("h", (Address("h", 9092),)),
        ("a:1, b:2", (Address("a", 1), Address("b", 2))),
        ("[::1]:5", (Address("::1", 5),)),
        ("[::1]", (Address("::1", 9092),)),
        (":5", (Address("127.0.0.1", 5),)),
    ],
)
def test_addresses_are_read(text: str, addresses: tuple[Address, ...]) -> None:
    assert Addresses().convert(text, None, None) == addresses


@pytest.mark.parametrize("text", ["h:x", "h:0", "h:65536"])
def test_a_wrong_port_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not host:port"):
        Addresses().convert(text, None, None)


def test_an_ipv6_address_is_printed_in_brackets() -> None:
    assert str(Address("::1", 5)) == "[::1]:5"


def test_name_value_splits_at_the_first_equals_sign() -> None:
    assert NameValue().convert("a=b=c", None, None) == ("a", "b=c")
    assert NameValue().convert("a=", None, None) == ("a", "")
    for wrong in ("a", "=b"):
        with pytest.raises(click.BadParameter, match="is not NAME=VALUE"):
            NameValue().convert(wrong, None, None)


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
        ("", b""),
        ("ä%s", "ävalue".encode()),
    ],
)
def test_a_record_is_printed_by_its_template(template: str, printed: bytes) -> None:
    assert compile_format(template)(Message()) == printed


def test_nulls_are_empty_with_a_length_of_minus_one() -> None:
    assert compile_format("%K:%k|%S:%s")(Message(None, None)) == b"-1:|-1:"


def test_an_unknown_field_is_refused_with_those_there_are() -> None:
    with pytest.raises(click.UsageError, match=r"%q is none of %k"):
        compile_format("%q")


@pytest.mark.parametrize(("text", "start"), [("beginning", "beginning"), ("end", "end"), ("5", 5), ("-3", -3)])
def test_a_starting_point_is_read(text: str, start: int | str) -> None:
    assert parse_start(text) == start


def test_a_wrong_starting_point_is_refused() -> None:
    with pytest.raises(click.UsageError, match="must be beginning, end or a number"):
        parse_start("middle")


@pytest.mark.parametrize(
    ("record", "separator", "empty_is_null", "key_and_value"),
    [
        (b"v", None, False, (None, b"v")),
        (b"k:v:w", ":", False, (b"k", b"v:w")),
        (b"v", ":", False, (None, b"v")),
        (b":v", ":", False, (b"", b"v")),
        (b"k:", ":", True, (b"k", None)),
        (b"", None, True, (None, None)),
    ],
)
def test_a_line_is_split_into_key_and_value(
    record: bytes, separator: str | None, empty_is_null: bool, key_and_value: tuple[bytes | None, bytes | None]
) -> None:
    assert _split(record, separator, empty_is_null) == key_and_value
