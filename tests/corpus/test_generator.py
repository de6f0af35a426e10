"""The corpus itself: its bytes are Kafka's, it repeats, and it is what was recorded."""

from __future__ import annotations

from itertools import islice

import pytest
from tests.corpus.cases import cases, mutated
from tests.corpus.dice import Dice
from tests.corpus.scenarios import ALL
from tests.corpus.scenarios.scenario import Scenario
from tests.corpus.shape import cuts, nodes, render, shape

from ottla.wire.build import build, request_type
from ottla.wire.codec import encode_body

EACH = [pytest.param(scenario, id=scenario.name) for scenario in ALL]


def test_dice_fall_as_they_always_did() -> None:
    dice = Dice("a seed")

    assert [dice.below(1000) for _ in range(5)] == [67, 680, 219, 802, 92]


@pytest.mark.parametrize("scenario", EACH)
def test_a_request_has_the_bytes_that_an_encoder_gives_it(scenario: Scenario) -> None:
    for version in scenario.versions:
        for name, values in scenario.cases(version).items():
            request = build(request_type(scenario.key, version), values)
            try:
                expected = encode_body(request)
            except TypeError:  # null where this version has none: only an edge case can say that
                continue
            assert render(shape(request)) == expected, f"version {version}, {name}"


@pytest.mark.parametrize("scenario", EACH)
def test_pieces_begin_inside_the_body_and_none_is_lost(scenario: Scenario) -> None:
    values = next(iter(scenario.cases(scenario.newest).values()))
    tree = shape(build(request_type(scenario.key, scenario.newest), values))

    assert set(cuts(tree)) <= set(range(len(render(tree)) + 1))
    for node in nodes(tree):
        assert render(tree, node, render(node)) == render(tree)


@pytest.mark.parametrize("scenario", EACH)
def test_cases_have_names_of_their_own(scenario: Scenario) -> None:
    for version in scenario.versions:
        found = cases(scenario, version)

        assert len({case.name for case in found}) == len({case.body for case in found}) == len(found)


def test_mutations_repeat_and_differ_from_version_to_version() -> None:
    scenario = ALL[0]

    def first(version: int) -> list[bytes]:
        return list(islice(mutated(scenario, version), 100))

    assert first(9) == first(9)
    assert first(9) != first(10)
