"""Options: the official names, near misses, and what cannot be obeyed."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition
from ottla.spark.client_settings import Address
from ottla.spark.cluster import EARLIEST, LATEST
from ottla.spark.source_options import SourceOptions, source_options

NEEDED = {"kafka.bootstrap.servers": "a:1,b", "subscribe": "t"}


def options(*, batch: bool = True, without: str = "", **more: str) -> SourceOptions:
    given = NEEDED | {name.replace("__", "."): value for name, value in more.items()}
    given.pop(without, None)
    return source_options({name.lower(): value for name, value in given.items()}, batch=batch)  # as Spark gives them


def test_what_is_not_said_is_as_in_the_official_source() -> None:
    batch, stream = options(), options(batch=False)
    assert (batch.starting.everywhere, batch.ending.everywhere) == (EARLIEST, LATEST)
    assert stream.starting.everywhere == LATEST
    assert batch.fail_on_data_loss and not batch.headers and not batch.client.read_committed
    assert batch.client.bootstrap == (Address("a", 1), Address("b", 9092))
    assert (stream.poll_timeout_s, stream.max_delay_s) == (120, 900)


def test_one_time_comes_before_times_and_these_before_offsets() -> None:
    times = '{"t": {"0": 5}}'
    assert options(startingTimestamp="7", startingOffsetsByTimestamp=times).starting.everywhere == 7
    assert options(startingOffsetsByTimestamp=times, startingOffsets="earliest").starting.each == (
        (TopicPartition("t", 0), 5),
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"subscirbe": "x"}, "no option subscirbe; did you mean subscribe"),
        ({"startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"kafka__group_id": "x"}, "kafka.group_id is no setting .*; did you mean group.id"),
        ({"kafka__max__pol__records": "x"}, "did you mean max.poll.records"),
        ({"kafka__bootstrap__servers": "  "}, "kafka.bootstrap.servers is missing"),
        ({"kafka__bootstrap__servers": "a:x"}, "'a:x' is not host:port"),
        ({"assign": '{"t": [0]}'}, "one of .*, not by subscribe and assign"),
        ({"startingOffsets": "latest"}, "begins at the latest offset reads nothing"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "cannot be -1 for t-0"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "-3 is no offset of t-0"),
        ({"startingOffsets": '{"t": {"0": "5"}}'}, "must be JSON like .*'5' is no whole number"),
        ({"startingOffsets": '{"t"'}, "must be JSON like"),
        ({"startingOffsets": "newest"}, "is earliest, latest, or JSON"),
        ({"endingOffsets": "earliest"}, "nothing ends at the earliest"),
        ({"startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -5}}'}, "the time for t-0 is negative"),
        ({"startingOffsetsByTimestampStrategy": "newest"}, "is error or latest"),
        ({"minPartitions": "0"}, "minPartitions is a number of 1 or more"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is true or false"),
        ({"isolation": "serializable"}, "isolation is read_committed or read_uncommitted"),
        ({"kafka__isolation__level": "committed"}, "kafka.isolation.level is"),
        ({"kafka__request__timeout__ms": "soon"}, "kafka.request.timeout.ms is a number"),
        ({"kafka__auto__offset__reset": "earliest"}, "said by the option startingOffsets"),
        ({"kafka__enable__auto__commit": "true"}, "Spark's checkpoint has the offsets"),
        ({"kafka__value__deserializer": "x"}, "values are binary"),
        ({"kafka__security__protocol": "SASL_SSL"}, "secured clusters cannot be used by format ottla yet"),
        ({"kafka__sasl__jaas__config": "x"}, "secured clusters"),
        ({"kafka__ssl__truststore__location": "x"}, "secured clusters"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], says: str) -> None:
    with pytest.raises(OttlaError, match=says):
        options(**given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is for batch queries"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "is more than"),
        ({"maxTriggerDelay": "a while"}, "a time like 15m"),
        ({"without": "subscribe"}, "must be said by one of"),
        ({"without": "subscribe", "subscribePattern": "("}, "is no pattern"),
        ({"without": "subscribe", "assign": "[1]"}, "assign must be JSON"),
        ({"without": "subscribe", "assign": "{}"}, "names no partition"),
        ({"subscribe": " "}, "option subscribe is empty"),
    ],
)
def test_what_is_wrong_with_a_stream_is_said(given: dict[str, Any], says: str) -> None:
    with pytest.raises(OttlaError, match=says):
        options(batch=False, **given)


@pytest.mark.parametrize("setting", ["max.poll.records", "session.timeout.ms", "receive.buffer.bytes"])
def test_settings_that_only_tune_a_java_client_are_left_alone(setting: str) -> None:
    assert source_options(NEEDED | {f"kafka.{setting}": "500"}, batch=True) == options()


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900), ("30s", 30), ("500ms", 0.5), ("2h", 7200), ("1000", 1), ("1d", 86400)]
)
def test_delays(text: str, seconds: float) -> None:
    assert options(batch=False, maxTriggerDelay=text).max_delay_s == seconds


def test_every_partition_must_be_named() -> None:
    starting = options(startingOffsets='{"t": {"0": 5, "7": 1}}').starting
    with pytest.raises(OttlaError, match=r"startingOffsets must name every partition.*t-1 is missing.*-2 is the ear"):
        starting.of([TopicPartition("t", 0), TopicPartition("t", 1)])
    with pytest.raises(OttlaError, match="names t-7, which is not among"):
        starting.of([TopicPartition("t", 0)])
