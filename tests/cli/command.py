"""Running the command in a process of its own, as a user does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from typing import Final

from ottla.testing.apache_kafka import free_port as unused_port

__all__ = ["OTTLA", "Run", "new_topic_name", "run_ottla", "unused_port"]

Run = Callable[..., "subprocess.CompletedProcess[str]"]
OTTLA: Final = (sys.executable, "-m", "ottla.cli.main")


def run_ottla(*args: str, stdin: str = "", address: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "OTTLA_BOOTSTRAP"}
    if address is not None:
        env["OTTLA_BOOTSTRAP"] = address
    return subprocess.run(
        [*OTTLA, *args], input=stdin, capture_output=True, text=True, timeout=240, env=env, check=False
    )


_numbers = count()


def new_topic_name(test: str) -> str:
    """A topic of a test's own, whichever tests share the cluster."""
    return f"{re.sub('[^a-zA-Z0-9]+', '-', test)[:60].strip('-')}-{next(_numbers)}"
