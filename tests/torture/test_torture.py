"""Real nodes are killed, paused and cut off at random under load. `make torture` does it for as long as one likes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.torture.busy import Told, stay_busy
from tests.torture.torture import scene, torture


def test_a_few_rounds_lose_and_double_nothing(tmp_path: Path) -> None:
    with scene(tmp_path, with_networks=False) as where:
        print(torture(where, seed=7, rate=200, rounds=3))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_rounds_lose_and_double_nothing(tmp_path: Path) -> None:
    with scene(tmp_path) as where:
        print(torture(where, seed=int(time.time()), rate=500, rounds=100))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nobody_is_fenced_because_the_machine_is_busy(tmp_path: Path) -> None:
    assert stay_busy(tmp_path, seconds=120, rate=200) == Told(fenced=0, registered=0, epochs=0)
