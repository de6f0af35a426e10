"""Plays the corpus to a node of ours and prints what differs: `python -m tests.corpus.report [-m COUNT] [API ...]`."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.corpus.compare import Difference, compare_cases, compare_mutations
from tests.corpus.differences import reason
from tests.corpus.player import Player
from tests.corpus.recording import Recording, recorded
from tests.corpus.world import SETTINGS, prepare

from ottla.broker.apis.registry import ALL
from ottla.testing.process import running_process

_KINDS = 15  # of differences, for each API


def main(arguments: list[str]) -> None:
    most = int(arguments.pop(arguments.index("-m") + 1)) if "-m" in arguments else 1000
    names = [name for name in arguments if name != "-m"]
    offered = {api.key for api in ALL}
    recordings = [Recording.load(name) for name in recorded() if not names or name in names]
    recordings = [recording for recording in recordings if recording.key in offered]
    with tempfile.TemporaryDirectory() as folder, running_process(Path(folder), **SETTINGS) as node:
        with Player(node.port, prepare(node.port)) as player:
            for recording in recordings:
                _print(recording.api, list(compare_cases(recording, player)))
            for recording in recordings:
                began = time.monotonic()
                found = list(compare_mutations(recording, player, most))
                print(f"== {recording.api} mutations in {time.monotonic() - began:.1f} s")
                _print(recording.api, found)
        log = node.log()
        print(
            f"== {log.count('Traceback')} exceptions in the node's log",
            log[log.index("Traceback") :][:2000] if "Traceback" in log else "",
        )


def _print(api: str, differences: list[Difference]) -> None:
    """Each kind of difference once, with an example."""
    listed = Counter(reason(one) for one in differences)
    print(f"== {api}: {listed.pop(None, 0)} differ; listed: {dict(listed)}")
    seen: Counter[str] = Counter()
    examples: dict[str, Difference] = {}
    for one in differences:
        if reason(one) is None:
            kind = " | ".join(paths(one.kafka, one.here))
            seen[kind] += 1
            examples.setdefault(kind, one)
    for kind, count in seen.most_common(_KINDS):
        one = examples[kind]
        print(f"{count:4} {kind[:600]}\n     v{one.version} {one.name}: {one.body.hex()[:240]}")


def paths(kafka: Any, here: Any, path: str = "") -> Iterator[str]:
    """Where two outcomes differ."""
    if isinstance(kafka, dict) and isinstance(here, dict) and kafka.keys() == here.keys():
        for name in kafka:
            yield from paths(kafka[name], here[name], f"{path}.{name}")
    elif isinstance(kafka, list) and isinstance(here, list) and len(kafka) == len(here):
        for one, other in zip(kafka, here, strict=True):
            yield from paths(one, other, path)
    elif kafka != here:
        yield f"{path}: {json.dumps(kafka)[:160]} -> {json.dumps(here)[:160]}"


if __name__ == "__main__":
    main(sys.argv[1:])
