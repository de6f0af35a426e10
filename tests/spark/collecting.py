"""For the conftest of a folder whose tests need Spark: who sees them, and by which mark."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest


def ignored_without(*modules: str) -> list[str]:
    """For `collect_ignore_glob`."""
    return [] if all(find_spec(name) for name in ("pyspark", "pyarrow", *modules)) else ["test_*.py"]


def mark_below(folder: Path, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(pytest.mark.spark)
