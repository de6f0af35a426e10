"""The Python files beside a spec that its steps need: those that they name, and what these import of what is there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path


def beside(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Their texts, by paths below the folder; what is installed is not among them."""
    found: dict[str, str] = {}
    wanted = list(names)
    while wanted:
        name = wanted.pop()
        for path in _places(name):
            if str(path) not in found and (folder / path).is_file():
                text = (folder / path).read_text(encoding="utf-8")
                found[str(path)] = text
                package = name if path.name == "__init__.py" else name.rpartition(".")[0]
                wanted.extend(_imported(text, package))
    return found


def _places(name: str) -> Iterator[Path]:
    """Where a module may be; and the packages around it."""
    parts = name.split(".")
    yield Path(*parts).with_name(f"{parts[-1]}.py")
    for depth in range(1, len(parts) + 1):
        yield Path(*parts[:depth], "__init__.py")


def _imported(text: str, package: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except SyntaxError:  # told by whoever runs it
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*filter(None, around), *filter(None, [node.module])])
            yield from filter(None, (base, *(".".join(filter(None, (base, one.name))) for one in node.names)))
