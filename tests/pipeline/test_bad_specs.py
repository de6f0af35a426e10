"""Specs that are wrong, each with what must be said about it behind its last line: `# line:column: message`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.pipeline import checking
from ottla.pipeline.spec import BadSpec, understood

BAD = sorted((Path(__file__).parent / "bad").glob("*.yaml"))
_CONNECTORS = re.compile(r"by one of [a-z, -]+?(?=;|, not|$)")


def complaints(text: str) -> list[str]:
    try:
        spec = understood(text, "spec.yaml", Path("/nowhere"))
        lines = spec.told(checking.problems(spec, ask=False))
    except BadSpec as error:
        lines = error.lines
    return [_CONNECTORS.sub("by one of ...", line.removeprefix("spec.yaml:")) for line in lines]


@pytest.mark.parametrize("file", BAD, ids=[file.stem for file in BAD])
def test_what_is_wrong_is_said_with_its_place(file: Path) -> None:
    text = file.read_text()
    expected = re.findall(r"^# (\d+:\d+: .*)$", text, re.MULTILINE)
    spec = re.sub(r"^# \d+:\d+: .*\n", "", text, flags=re.MULTILINE)
    assert expected
    assert complaints(spec) == expected


def test_there_are_enough_of_them() -> None:
    assert len(BAD) >= 50


def test_what_is_right_is_not_complained_about(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SHOP", "postgresql:///shop"), ("LAKE", "file:///lake")):  # which two of them ask for
        monkeypatch.setenv(name, value)
    for file in sorted((Path(__file__).parents[2] / "examples" / "pipelines").glob("*/pipeline.yaml")):
        spec = understood(file.read_text(), str(file), file.parent)
        assert spec.told(checking.problems(spec, ask=False)) == []
