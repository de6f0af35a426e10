"""What a shell is told when Tab is pressed."""

from __future__ import annotations

import os
import subprocess

from tests.cli.command import OTTLA
from tests.waiting import PATIENCE_S


def offered(*words: str, address: str = "127.0.0.1:1") -> list[str]:
    env = os.environ | {
        "_OTTLA_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("ottla", *words)),
        "COMP_CWORD": str(len(words)),
        "OTTLA_BOOTSTRAP": address,
    }
    done = subprocess.run(OTTLA, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]
