"""What an extra of pyproject.toml needs, a line each, without the project itself:

python tools/requirements_of.py pipelines | pip install -r /dev/stdin
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def requirements(extra: str, project: str, extras: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for one in extras[extra]:
        if one.startswith(f"{project}["):  # of another extra
            for name in one.removeprefix(f"{project}[").rstrip("]").split(","):
                yield from requirements(name.strip(), project, extras)
        else:
            yield one


def main() -> None:
    told = tomllib.loads(PROJECT.read_text())["project"]
    for one in requirements(sys.argv[1], told["name"], told["optional-dependencies"]):
        print(one)


if __name__ == "__main__":
    main()
