"""Connectors as a spec makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.pipeline.connectors.port import Batch, Place, Sink, Source
from ottla.pipeline.options import read
from ottla.pipeline.problems import Problem
from ottla.pipeline.yaml_tree import parsed


def place(folder: Path = Path(), entry: str = "out") -> Place:
    return Place(pipeline="shop", entry=entry, folder=folder)


def sink(kind: type[Sink], folder: Path, **options: Any) -> Any:
    made = kind(_options(kind.options, options), place(folder))
    assert list(made.check()) == []
    return made


def source(kind: type[Source], folder: Path, **options: Any) -> Any:
    made = kind(_options(kind.options, options), place(folder, "in"))
    assert list(made.check()) == []
    return made


def _options(kind: type, given: dict[str, Any]) -> Any:
    return kind(**given)


def batch(number: int, query: str = "shop/out") -> Batch:
    return Batch(query, number)


def problems_of(kind: type[Sink] | type[Source], text: str) -> list[Problem]:
    """What is wrong with a piece of a spec."""
    problems: list[Problem] = []
    given = read(kind.options, parsed(text), problems, what="this")
    return problems if given is None else list(kind(given, place()).check())
