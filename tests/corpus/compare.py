"""Plays the corpus to a server and compares what it does with what Apache Kafka did."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from tests.corpus.cases import cases, mutated
from tests.corpus.outcome import outcome, outcome_class
from tests.corpus.player import Player
from tests.corpus.recording import BLOCK, UNSTEADY, Recording, digest
from tests.corpus.scenarios import BY_KEY


class Stale(Exception):
    """The corpus is not what was recorded: what was sent to Apache Kafka and what would be sent now differ."""


class Difference(NamedTuple):
    api: str
    key: int
    version: int
    name: str  # of the case, or the place of the mutation
    body: bytes
    kafka: Any
    here: Any


def compare_cases(recording: Recording, player: Player) -> Iterator[Difference]:
    for number, version in recording.versions.items():
        known = {case.name: case for case in cases(BY_KEY[recording.key], number)}
        for name, expected_digest, expected in version.cases:
            case = known.get(name)
            if case is None or case.digest != expected_digest:
                raise Stale(f"{recording.api} version {number}, {name}: record it anew (docs/internals/corpus.md)")
            kafka = recording.outcomes[expected]
            here = outcome(recording.key, number, case.body, player.play(recording.key, number, case.body))
            if kafka not in (here, UNSTEADY):
                yield Difference(recording.api, recording.key, number, name, case.body, kafka, here)


def compare_mutations(recording: Recording, player: Player, most: int | None = None) -> Iterator[Difference]:
    """All mutations of each version, or the first ones."""
    player.leave_sessions()
    for number in recording.versions:
        for place, body, expected in _mutations(recording, number, most):
            kafka = recording.classes[expected]
            here = outcome_class(outcome(recording.key, number, body, player.play(recording.key, number, body)))
            if kafka not in (here, UNSTEADY):
                yield Difference(recording.api, recording.key, number, f"mutation {place}", body, kafka, here)


def _mutations(recording: Recording, number: int, most: int | None) -> Iterator[tuple[int, bytes, int]]:
    version = recording.versions[number]
    left_out = set(version.left_out)
    bodies = mutated(BY_KEY[recording.key], number)
    classes = iter(version.mutations if most is None else version.mutations[:most])
    for block, expected in enumerate(version.digests):
        made = list(islice(bodies, BLOCK))
        if digest(made) != expected:
            raise Stale(f"{recording.api} version {number}, mutations: record them anew (docs/internals/corpus.md)")
        for at, body in enumerate(made, block * BLOCK):
            if at not in left_out:
                if (kind := next(classes, None)) is None:
                    return
                yield at, body, kind
