"""Bytes below the level of requests: as many answers as Apache Kafka gives, and nobody else notices."""

from __future__ import annotations

from pathlib import Path

from tests.corpus.frames import all_frames, send
from tests.corpus.recording import UNSTEADY, load_frames
from tests.corpus.watch import Watch
from tests.corpus.world import SETTINGS, prepare

from ottla.testing.process import running_process

MB = 1024 * 1024


def test_as_many_answers_as_apache_kafka_gives(tmp_path: Path) -> None:
    recorded = load_frames()
    frames = all_frames()
    assert [(frame.name, frame.digest) for frame in frames] == [(name, digest) for name, digest, _ in recorded]

    with running_process(tmp_path, **SETTINGS) as node:
        prepare(node.port)
        send(node.port, frames[0].data)
        with Watch(node) as watch:
            outcomes = [send(node.port, frame.data) for frame in frames]
        log = node.log()

    assert not watch.unanswered and watch.slowest_s < 1 and watch.grown < 20 * MB
    assert "Traceback" not in log, log[log.index("Traceback") :][:3000]
    differ = [
        f"{frame.name}: Kafka {kafka}, here {here}: {frame.data.hex()}"
        for frame, (_, _, kafka), here in zip(frames, recorded, outcomes, strict=True)
        if kafka not in (here, UNSTEADY)
    ]
    assert not differ, f"{len(differ)} differ, among them\n" + "\n".join(differ[:10])
