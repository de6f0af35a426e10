"""`ottla up --spark`: what its small pipeline makes is seen flowing, and all of it ends with the node."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_up_pipeline import Up, lives
from tests.waiting import until

from ottla.cli.demo.show import SPEC
from ottla.pipeline.spec import load
from ottla.pipeline.trying import run_test


def test_its_own_tests_pass(spark: Any, tmp_path: Path) -> None:
    spec = load(SPEC)
    assert spec.doubts == () and spec.tests
    for test in spec.tests:
        assert run_test(spec, test, spark, tmp_path / "trying").problems == (), test.name


@pytest.mark.timeout(1500)
def test_what_comes_out_is_seen_again_after_a_restart_and_nothing_stays_behind(tmp_path: Path) -> None:
    for _ in range(2):
        up = Up(tmp_path / "data", "--spark")
        try:
            run_until_it_is_seen(up)
        finally:
            up.process.kill()


def run_until_it_is_seen(up: Up) -> None:
    def is_seen() -> bool:
        assert "it has ended" not in up.text and up.process.poll() is None
        return len(re.findall(r"pipeline: \d\d:\d\d:\d\d  sold in 5 s: \w+ \d+", up.text)) >= 2

    until(is_seen, lambda: up.text, within_s=600)
    family = up.family()
    assert any("java" in one.name() for one in family)
    assert up.interrupt() == 0
    assert up.text.endswith("Stopped; the data stay.\n")
    until(lambda: not any(map(lives, family)), lambda: f"{family}")
