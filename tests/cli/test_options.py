"""What is typed behind options: addresses, NAME=VALUE, units, times."""

import click
import pytest

from ottla.cli.cluster_options import Address, Addresses
from ottla.cli.config_names import plain_value
from ottla.cli.name_value import NameValue
from ottla.cli.output import count
from ottla.cli.progress import bytes_text
from ottla.cli.reassign.options import Rate
from ottla.cli.times import Seconds, iso, parse_time


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


@pytest.mark.parametrize(
    ("name", "typed", "meant"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "90 s", "90000"),
        ("retention.ms", "-1", "-1"),
        ("segment.bytes", "64MiB", "67108864"),
        ("segment.bytes", "1g", "1073741824"),
        ("segment.bytes", "64 parsecs", "64 parsecs"),
        ("cleanup.policy", "1d", "1d"),
        ("segment.bytes", "64MB", "64000000"),
        ("segment.bytes", "64m", "67108864"),
        ("segment.bytes", "1kB", "1000"),
        ("segment.bytes", "1KiB", "1024"),
    ],
)
def test_values_of_configs_may_have_units(name: str, typed: str, meant: str) -> None:
    assert plain_value(name, typed) == meant


@pytest.mark.parametrize(
    ("number", "told"), [(999, "999 B"), (1500, "1.5 kB"), (64_000_000, "64.0 MB"), (5e12, "5000.0 GB")]
)
def test_amounts_are_told_in_thousands(number: float, told: str) -> None:
    assert bytes_text(number) == told


@pytest.mark.parametrize(("number", "told"), [(0, "0 records"), (1, "1 record"), (12345, "12,345 records")])
def test_what_is_counted(number: int, told: str) -> None:
    assert count(number, "record") == told


NOW = 1_763_200_000_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("now", NOW),
        ("1763200000", NOW),
        ("1763200000123", NOW + 123),
        ("5m ago", NOW - 300_000),
        ("1h 30m ago", NOW - 5_400_000),
        ("2 days ago", NOW - 172_800_000),
        ("1.5s ago", NOW - 1500),
        ("2025-11-15T09:46:40Z", NOW),
        ("2025-11-15T11:46:40.5+02:00", NOW + 500),
    ],
)
def test_times_are_read(text: str, ms: int) -> None:
    assert parse_time(text, NOW) == ms


@pytest.mark.parametrize("text", ["yesterday", "ago", "5 parsecs ago", "5m 3 ago", "2025-13-01", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_time(text, NOW)


def test_times_are_printed_in_utc() -> None:
    assert iso(NOW + 7) == "2025-11-15T09:46:40.007Z"
    assert iso(1 << 62) == str(1 << 62)


@pytest.mark.parametrize("typed", ["nan", "inf", "1e30", "-1", "0"])
def test_seconds_are_a_number_that_a_clock_can_count(typed: str) -> None:
    assert Seconds().convert("0.5", None, None) == 0.5 and Seconds(least=0).convert("0", None, None) == 0
    with pytest.raises(click.BadParameter, match=r"is no number of seconds|is not in the range"):
        Seconds().convert(typed, None, None)


@pytest.mark.parametrize("typed", ["0", "x", "-5", "9223372036854775808"])
def test_a_rate_is_one_that_a_broker_takes(typed: str) -> None:
    assert Rate().convert("50MB/s", None, None) == 50_000_000
    with pytest.raises(click.BadParameter, match="is not an amount a second"):
        Rate().convert(typed, None, None)
