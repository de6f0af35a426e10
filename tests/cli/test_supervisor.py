"""The supervisor of `ottla up --brokers`, where several nodes end in the same moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

KILLED_TOGETHER = """
import os, signal, sys, time
from pathlib import Path
from ottla.cli.supervise.layout import Layout, Place
from ottla.cli.supervise.supervisor import Supervisor
from ottla.model.errors import OttlaError

killed = []

def kill_all(children, line):
    if killed:
        return
    for child in children:  # all have ended before the supervisor looks again
        killed.append(child.pid)
        os.kill(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        time.sleep(0)  # its signal is here before the next one ends

places = tuple(Place(number, is_broker=True, is_voter=True) for number in (1, 2, 3))
configs = dict.fromkeys((1, 2, 3))
layout = Layout("", places)
supervisor = Supervisor(Path(sys.argv[1]), layout, configs, kill_all, lambda: None, lambda _: time.sleep(60))
try:
    supervisor.run(lambda: None)
except OttlaError as error:
    print(error)
"""


def test_nodes_that_end_together_before_they_serve_are_told_one_by_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED_TOGETHER, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    told = "; ".join(f"node {number} was killed by SIGKILL" for number in (1, 2, 3))
    assert (done.stdout, done.stderr) == (f"no node could be started: {told}\n", "")
