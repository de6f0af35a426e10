"""What a shell is told when Tab is pressed."""

from __future__ import annotations

import subprocess

import pytest
from tests.cli.command import Run, run_ottla
from tests.cli.completing import offered


def test_commands_and_options_are_offered() -> None:
    assert offered("top") == ["topic"]
    assert offered("topic", "cr") == ["create"]
    assert "--partitions" in offered("topic", "create", "--pa")


def test_topics_of_the_cluster_are_offered(ottla: Run, node: str) -> None:
    ottla("topic", "create", "completed-a")
    ottla("topic", "create", "completed-b")
    assert offered("consume", "completed-", address=node) == ["completed-a", "completed-b"]


def test_a_cluster_that_is_not_there_offers_nothing() -> None:
    assert offered("consume", "x") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str) -> None:
    done = run_ottla("completion", shell)
    assert done.returncode == 0 and f"_OTTLA_COMPLETE={shell}_complete" in done.stdout


def test_the_script_for_bash_works_in_bash() -> None:
    script = run_ottla("completion", "bash").stdout
    done = subprocess.run(["bash", "-c", f"{script}\ncomplete -p ottla"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "ottla" in done.stdout
