"""The load generators, built with gcc: load.c over the librdkafka inside the confluent-kafka wheel, replay.c alone."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

Figures = dict[str, Any]


class LoadError(RuntimeError):
    """A load could not be built or did not end well; the message says why."""


def librdkafka() -> Path:
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise LoadError("the benches need confluent-kafka, for the librdkafka inside its wheel: pip install it")
    libraries = sorted((Path(spec.origin).parent.parent / "confluent_kafka.libs").glob("librdkafka-*.so*"))
    if not libraries:
        raise LoadError(
            "this confluent-kafka has no librdkafka in confluent_kafka.libs/: install its Linux wheel from PyPI"
        )
    return libraries[0]


def build() -> Path:
    """The compiled generator that is a Kafka client."""
    library = librdkafka()
    return _compiled("load", str(library), f"-Wl,-rpath,{library.parent}", "-lpthread")


def build_replay() -> Path:
    """The compiled generator that sends what was prepared."""
    return _compiled("replay")


def _compiled(name: str, *options: str) -> Path:
    """Kept in the user's cache folder under a name made of what went into it."""
    source = Path(__file__).with_name(f"{name}.c")
    digest = hashlib.sha256(source.read_bytes() + "".join(options).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla" / "bench"
    program = cache / f"{name}-{digest}"
    if program.exists():
        return program
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise LoadError("the benches compile their load generators: install gcc")
    cache.mkdir(parents=True, exist_ok=True)
    staging = program.with_suffix(f".{os.getpid()}")
    command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(staging), str(source), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LoadError(f"{source.name} did not compile:\n{done.stderr}")
    staging.rename(program)
    return program


def spawn(mode: str, bootstrap: str, **arguments: str | int) -> subprocess.Popen[str]:
    return _spawn([str(build()), mode, f"brokers={bootstrap}", *_pairs(arguments)])


def replay(**arguments: str | int) -> Figures:
    """Runs replay.c to its end; the figures that it printed."""
    return collect(_spawn([str(build_replay()), *_pairs(arguments)]))


def _pairs(arguments: dict[str, str | int]) -> list[str]:
    return [f"{name}={value}" for name, value in arguments.items()]


def _spawn(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def collect(process: subprocess.Popen[str]) -> Figures:
    output, errors = process.communicate()
    if process.returncode != 0:
        reason = errors.strip()[-2000:] or f"it ended with {process.returncode} (-14: past its deadline)"
        raise LoadError(f"{' '.join(process.args[1:])}: {reason}" if isinstance(process.args, list) else reason)
    figures: Figures = json.loads(output)
    return figures


def run(mode: str, bootstrap: str, **arguments: str | int) -> Figures:
    """Runs one load to its end; the figures that it printed."""
    return collect(spawn(mode, bootstrap, **arguments))
