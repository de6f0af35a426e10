"""Every request of the corpus has here the outcome that it had with Apache Kafka, but for differences that are listed.

A difference that is not listed fails with its bytes. Either it is a mistake of ours, or it is meant: then it belongs
into `differences.py` and docs/compatibility.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.corpus import differences
from tests.corpus.compare import Difference, compare_cases, compare_mutations
from tests.corpus.player import Player
from tests.corpus.recording import Recording, recorded
from tests.corpus.watch import Watch
from tests.corpus.world import SETTINGS, prepare

from ottla.broker.apis.registry import ALL
from ottla.broker.context import Api
from ottla.testing.process import NodeProcess, running_process

MB = 1024 * 1024
SOME_MUTATIONS = 150  # of each version, where time is short
EACH_API = [pytest.param(api, id=api.name) for api in ALL]


class Server(NamedTuple):
    node: NodeProcess
    ids: dict[bytes, bytes]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_process(tmp_path_factory.mktemp("corpus"), **SETTINGS) as node:
        yield Server(node, prepare(node.port))


@pytest.fixture
def fresh_server(tmp_path: Path) -> Iterator[Server]:
    with running_process(tmp_path, **SETTINGS) as node:
        yield Server(node, prepare(node.port))


@pytest.mark.parametrize("api", EACH_API)
def test_every_version_is_recorded(api: Api) -> None:
    assert api.name in recorded(), f"python -m tests.corpus.record {api.name}  (docs/internals/corpus.md)"
    recording = Recording.load(api.name)
    assert list(recording.versions) == list(range(api.oldest, api.newest + 1))
    assert all(len(version.mutations) >= 1000 for version in recording.versions.values())


@pytest.fixture(scope="module")
def reasons() -> dict[str, set[str]]:
    """By API, the listed differences that were seen."""
    return {}


@pytest.mark.parametrize("api", EACH_API)
def test_the_outcome_is_apache_kafkas(server: Server, reasons: dict[str, set[str]], api: Api) -> None:
    reasons[api.name] = _play(server, api, SOME_MUTATIONS)


def test_every_listed_difference_is_still_one(reasons: dict[str, set[str]]) -> None:
    if len(reasons) < len(EACH_API):
        pytest.skip("not all APIs were played, or not all as they should")
    seen = " ".join(reason for found in reasons.values() for reason in found)

    assert [reason for reason in differences.LISTED if reason not in seen] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("api", EACH_API)
def test_the_outcome_is_apache_kafkas_for_all_mutations(fresh_server: Server, api: Api) -> None:
    _play(fresh_server, api, None)


def _play(server: Server, api: Api, most: int | None) -> set[str]:
    """No crash, no hang, no growth, no exception that nobody expected; and equal outcomes, but for these reasons."""
    recording = Recording.load(api.name)
    begun_at = server.node.log_size()
    with Player(server.node.port, server.ids) as player:
        differ = list(compare_cases(recording, player))  # which leave nothing to be loaded or grown for the first time
        with Watch(server.node) as watch:
            differ += compare_mutations(recording, player, most)
    assert not watch.unanswered
    assert watch.slowest_s < 1
    assert watch.grown < 20 * MB
    log = server.node.log(since=begun_at)
    assert "Traceback" not in log, log[log.index("Traceback") :][:3000]
    reasons = [differences.reason(one) for one in differ]
    unlisted = [one for one, reason in zip(differ, reasons, strict=True) if reason is None]
    assert not unlisted, f"{len(unlisted)} differ, among them\n" + "\n".join(map(_described, unlisted[:5]))
    return {reason for reason in reasons if reason is not None}


def _described(one: Difference) -> str:
    kafka, here = (json.dumps(value)[:1500] for value in (one.kafka, one.here))
    return f"{one.api} version {one.version}, {one.name}: {one.body.hex()}\n  Kafka: {kafka}\n  here:  {here}"


def test_every_listed_difference_is_told_to_users() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()
    told = " ".join(re.findall(r"\S+", page))

    assert [reason for reason in differences.LISTED if reason not in told] == []
