"""The recordings are what Apache Kafka does: it is asked again, for all cases and some mutations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.corpus.compare import compare_cases, compare_mutations
from tests.corpus.frames import by_hand, send
from tests.corpus.player import Player
from tests.corpus.recording import FOLDER, UNSTEADY, Recording, load_frames, recorded
from tests.corpus.world import SETTINGS, prepare, wait_for_coordinators

from ottla.testing import apache_kafka

SOME_MUTATIONS = 20


def test_recordings_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1024 * 1024


def test_hardly_anything_recorded_is_unsteady() -> None:
    for api in recorded():
        recording = Recording.load(api)
        unsteady = [number for number, name in enumerate(recording.classes) if name == UNSTEADY]
        for version in recording.versions.values():
            assert sum(number in unsteady for number in version.mutations) < 10, api


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[apache_kafka.ApacheKafka]:
    node = apache_kafka.ApacheKafka.start(tmp_path, apache_kafka.free_port(), **SETTINGS)
    try:
        yield node
    finally:
        node.stop()


@pytest.mark.kafka
@pytest.mark.timeout(900)
@pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars")
def test_apache_kafka_does_what_was_recorded(kafka: apache_kafka.ApacheKafka) -> None:
    recordings = [Recording.load(api) for api in recorded()]
    with Player(kafka.port, prepare(kafka.port)) as player:
        wait_for_coordinators(kafka.port)
        differ = [one for recording in recordings for one in compare_cases(recording, player)]
        for recording in recordings:
            differ += compare_mutations(recording, player, SOME_MUTATIONS)
    outcomes = {name: outcome for name, _, outcome in load_frames()}

    assert not differ, differ[:5]
    assert {frame.name: send(kafka.port, frame.data) for frame in by_hand()}.items() <= outcomes.items()
