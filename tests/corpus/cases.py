"""The corpus: for each API and version its cases, right and at the edge, and as many mutations as one likes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple
from zlib import crc32

from tests.corpus.dice import Dice
from tests.corpus.edges import edges
from tests.corpus.mutations import Seed, mutations
from tests.corpus.scenarios.scenario import Scenario
from tests.corpus.shape import Struct, cuts, render, shape

from ottla.wire.build import build, request_type
from ottla.wire.codec import MalformedRequest, decode_request


class Case(NamedTuple):
    name: str
    body: bytes
    is_valid: bool  # as a client might send it: written by hand. Otherwise an edge case

    @property
    def digest(self) -> str:
        return f"{crc32(self.body):08x}"


@cache
def cases(scenario: Scenario, version: int) -> list[Case]:
    """Valid ones first; a body that is there already is left out."""
    trees = _trees(scenario, version)
    found: dict[bytes, Case] = {}
    for name, tree in trees.items():
        body = render(tree)
        found.setdefault(body, Case(name, body, True))
    for name, body in edges(list(trees.values())):
        found.setdefault(body, Case(name, body, False))
    return list(found.values())


def mutated(scenario: Scenario, version: int) -> Iterator[bytes]:
    """Without end, and always the same."""
    seeds = [Seed(render(tree), cuts(tree)) for tree in _trees(scenario, version).values()]
    return mutations(Dice(f"{scenario.name} {version}"), seeds)


def is_harmless(scenario: Scenario, version: int, body: bytes) -> bool:
    """Whether a body may be sent to a server that others use. One that cannot be read has no effect."""
    try:
        request = decode_request(scenario.key, version, body)
    except MalformedRequest:
        return True
    return scenario.is_harmless(request)


def _trees(scenario: Scenario, version: int) -> dict[str, Struct]:
    """Requests of older versions have fewer fields: some cases become equal, and the first of them is kept."""
    found: dict[bytes, tuple[str, Struct]] = {}
    for name, values in scenario.cases(version).items():
        tree = shape(_entity(scenario.key, version, values))
        found.setdefault(render(tree), (name, tree))
    return dict(found.values())


def _entity(key: int, version: int, values: dict[str, Any]) -> Any:
    return build(request_type(key, version), values)
