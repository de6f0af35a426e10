"""Offsets as Spark keeps them."""

from __future__ import annotations

import json
from uuid import UUID

from ottla.model.names import TopicPartition
from ottla.spark.positions import from_spark, to_spark

ID = UUID(int=7)


def test_offsets_are_written_as_the_official_source_does_and_with_ids_beside() -> None:
    offsets = {TopicPartition("b", 10): 5, TopicPartition("b", 2): 4, TopicPartition("a", 0): 1}
    told = to_spark(offsets, {"b": ID, "a": None})
    assert json.dumps(told) == f'{{"a": {{"0": 1}}, "b": {{"2": 4, "10": 5}}, "@ids": {{"b": "{ID}"}}}}'
    assert from_spark(told) == (offsets, {"b": ID})


def test_offsets_of_the_official_source_can_be_read() -> None:
    assert from_spark({"a": {"0": 17}}) == ({TopicPartition("a", 0): 17}, {})
