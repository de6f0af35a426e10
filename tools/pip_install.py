"""`python tools/pip_install.py ARGS...`: `pip install`, once no other one writes to this environment.

`make up` brings PySpark in the background, while somebody may run `make test`.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

lock = os.open(Path(sys.prefix) / ".pip-lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
os.set_inheritable(lock, True)  # pip holds it until it ends, however it does
pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", "constraints.txt"]
os.execv(sys.executable, [sys.executable, *pip, *sys.argv[1:]])
