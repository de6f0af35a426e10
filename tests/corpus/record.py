"""Plays the corpus to Apache Kafka and keeps what it did: `python -m tests.corpus.record [API ... | frames |
conversations]`.

Everything is played to two fresh nodes, one after the other. Where they do not agree, the outcome depends on time or
chance, and is kept as unsteady.
"""

from __future__ import annotations

import sys
import tempfile
import time
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.corpus.cases import cases, is_harmless, mutated
from tests.corpus.conversations import recorded as conversations
from tests.corpus.conversations import registry
from tests.corpus.conversations.talk import Line
from tests.corpus.frames import all_frames, send
from tests.corpus.outcome import outcome, outcome_class
from tests.corpus.player import Player
from tests.corpus.recording import BLOCK, UNSTEADY, Recording, Version, digest, store_frames
from tests.corpus.scenarios import ALL
from tests.corpus.scenarios.scenario import Scenario
from tests.corpus.world import SETTINGS, prepare, wait_for_coordinators

from ottla.testing.apache_kafka import KAFKA_VERSION, ApacheKafka, free_port

MUTATIONS = 1000
FRAMES, CONVERSATIONS = "frames", "conversations"
Played = tuple[list[Any], list[str]]


def main(names: list[str]) -> None:
    if not names or CONVERSATIONS in names:
        _record_conversations()
    if names == [CONVERSATIONS]:
        return
    chosen = [scenario for scenario in ALL if not names or scenario.name in names]
    with_frames = not names or FRAMES in names
    (first, frames), (second, frames_again) = (_play_all(chosen, with_frames) for _ in range(2))
    if with_frames:
        _keep_frames(frames, frames_again)
    for scenario in chosen:
        recording = Recording(scenario.name, scenario.key, KAFKA_VERSION)
        unsteady = 0
        for version in scenario.versions:
            unsteady += _keep(recording, scenario, version, first[scenario.key, version], second[scenario.key, version])
        recording.store()
        print(f"{scenario.name}: {len(recording.outcomes)} outcomes, {unsteady} unsteady", flush=True)


def _record_conversations() -> None:
    """Each is held until it has gone the same way twice."""
    with tempfile.TemporaryDirectory() as folder:
        kafka = ApacheKafka.start(Path(folder), free_port(), **conversations.SETTINGS)
        try:
            ids = conversations.prepare(kafka.port)
            held = {name: _hold(kafka.port, name, ids) for name in registry.CONVERSATIONS}
        finally:
            kafka.stop()
    conversations.store({name: lines for name, lines in held.items() if lines is not None})
    unsteady = [name for name, lines in held.items() if lines is None]
    print(f"{CONVERSATIONS}: {len(held)}, unsteady and not kept: {unsteady}", flush=True)


def _hold(port: int, name: str, ids: dict[str, UUID]) -> list[Line] | None:
    seen: list[list[Line]] = []
    for number in range(1, 4):
        lines = conversations.hold(port, name, ids, number)
        if lines in seen:
            return lines
        seen.append(lines)
    return None


def _play_all(chosen: list[Scenario], with_frames: bool) -> tuple[dict[tuple[int, int], Played], list[str]]:
    """Cases of all APIs first: mutations change what they would find."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        kafka = ApacheKafka.start(Path(folder), free_port(), **SETTINGS)
        try:
            with Player(kafka.port, prepare(kafka.port)) as player:
                wait_for_coordinators(kafka.port)
                found = {
                    (scenario.key, version): (_play_cases(player, scenario, version), list[str]())
                    for scenario in chosen
                    for version in scenario.versions
                }
                player.leave_sessions()
                for scenario in chosen:
                    for version in scenario.versions:
                        found[scenario.key, version][1].extend(_play_mutations(player, scenario, version))
                    print(f"{time.monotonic() - began:5.0f} s  played {scenario.name}", flush=True)
            return found, [send(kafka.port, frame.data) for frame in all_frames()] if with_frames else []
        finally:
            kafka.stop()


def _keep_frames(first: list[str], second: list[str]) -> None:
    kept = [
        (frame.name, frame.digest, one if one == other else UNSTEADY)
        for frame, one, other in zip(all_frames(), first, second, strict=True)
    ]
    store_frames(kept)
    print(f"{FRAMES}: {len(kept)}, {sum(outcome == UNSTEADY for *_, outcome in kept)} unsteady", flush=True)


def _play_cases(player: Player, scenario: Scenario, version: int) -> list[Any]:
    return [
        outcome(scenario.key, version, case.body, player.play(scenario.key, version, case.body))
        for case in cases(scenario, version)
        if is_harmless(scenario, version, case.body) or case.is_valid
    ]


def _play_mutations(player: Player, scenario: Scenario, version: int) -> list[str]:
    return [
        outcome_class(outcome(scenario.key, version, body, player.play(scenario.key, version, body)))
        for body, harmless in _mutations(scenario, version)
        if harmless
    ]


@cache
def _mutations(scenario: Scenario, version: int) -> list[tuple[bytes, bool]]:
    """As many as it takes for enough harmless ones, in whole blocks."""
    bodies = mutated(scenario, version)
    found: list[tuple[bytes, bool]] = []
    while sum(harmless for _, harmless in found) < MUTATIONS:
        found += [(body, is_harmless(scenario, version, body)) for body in islice(bodies, BLOCK)]
    return found


def _keep(recording: Recording, scenario: Scenario, version: int, first: Played, second: Played) -> int:
    kept = recording.versions[version] = Version()
    unsteady = 0
    played = [c for c in cases(scenario, version) if is_harmless(scenario, version, c.body) or c.is_valid]
    for case, one, other in zip(played, first[0], second[0], strict=True):
        steady = one == other
        unsteady += not steady
        kept.cases.append((case.name, case.digest, recording.outcome_number(one if steady else UNSTEADY)))
    for one, other in zip(first[1], second[1], strict=True):
        unsteady += one != other
        kept.mutations.append(recording.class_number(one if one == other else UNSTEADY))
    tried = _mutations(scenario, version)
    kept.left_out = [at for at, (_, harmless) in enumerate(tried) if not harmless]
    kept.digests = [digest([body for body, _ in tried[at : at + BLOCK]]) for at in range(0, len(tried), BLOCK)]
    return unsteady


if __name__ == "__main__":
    main(sys.argv[1:])
