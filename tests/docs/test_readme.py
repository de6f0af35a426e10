"""What a reader copies from the README works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing.node import running_node

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
ADDRESS = "127.0.0.1:9092"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_node(tmp_path_factory.mktemp("node")) as node:
        yield node.address


def test_the_snippet_reads_what_it_wrote(address: str) -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert ADDRESS in snippet

    done = subprocess.run(
        [sys.executable, "-c", snippet.replace(ADDRESS, address)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout == "b'world'\n"


def test_the_shell_commands_read_what_they_wrote(address: str) -> None:
    (commands,) = re.findall(r"From a shell:\n\n((?:    .*\n)+)", README)
    bin_folder = Path(sys.executable).parent
    environment = os.environ | {"OTTLA_BOOTSTRAP": address, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}

    done = subprocess.run(
        ["sh", "-ec", commands], env=environment, capture_output=True, text=True, timeout=60, check=True
    )

    assert sorted(line.split()[2] for line in done.stdout.splitlines()) == ["k1=v1", "k2=v2"]
