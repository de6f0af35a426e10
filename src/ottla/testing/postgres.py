"""A PostgreSQL of a test's own: started in a folder, from the server that the machine has.

PostgreSQL refuses to run as root; then the user `postgres`, or `nobody`, runs it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

_PLACES: Final = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin")
_SETTINGS: Final = {
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "fsync": "off",  # the machine does not fail in a test, processes do
    "shared_buffers": "64MB",
    "listen_addresses": "127.0.0.1",
    "log_min_messages": "fatal",
}


def postgres_programs() -> Path | None:
    """The folder with postgres and initdb, or None where there are none."""
    found = shutil.which("initdb")
    if found is not None and shutil.which("postgres") is not None:
        return Path(found).resolve().parent
    for place in _PLACES:
        for folder in sorted(Path("/").glob(place[1:]), reverse=True):
            if (folder / "postgres").exists() and (folder / "initdb").exists():
                return folder
    return None


class Postgres:
    """Started, stopped and killed as often as wanted; its data stays."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._data = folder / "postgres"
        self._data.mkdir()
        self._user = _user()
        if self._user is not None:
            folder.chmod(0o755)
            os.chown(self._data, self._user.pw_uid, self._user.pw_gid)
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [self._programs / "postgres", "-D", self._data, "-p", str(self.port), "-k", self._data, *options],
            stdout=subprocess.DEVNULL,
            stderr=(self._data.parent / "postgres.log").open("ab"),
            start_new_session=True,
            **self._as_user(),
        )
        self._wait_until_it_answers()

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # fast: no waiting for clients
            self._process.wait(60)
            self._process = None

    def kill(self) -> None:
        """All of its processes at once."""
        if self._process is not None:
            import psutil

            every = [psutil.Process(self._process.pid), *psutil.Process(self._process.pid).children(recursive=True)]
            for one in every:  # each has a session of its own
                one.kill()
            self._process.wait(60)
            psutil.wait_procs(every, 60)
            self._process = None

    def _wait_until_it_answers(self) -> None:
        import time

        import psycopg

        last: Exception | None = None
        for _ in range(600):
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL ended with {self._process.returncode}")
            try:
                with psycopg.connect(self.dsn, connect_timeout=5):
                    return
            except psycopg.OperationalError as error:
                last = error
                time.sleep(0.1)
        raise RuntimeError(f"PostgreSQL does not answer: {last}")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run([self._programs / program, *arguments], capture_output=True, cwd="/", **self._as_user())
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.decode(errors='replace')}")

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    programs = postgres_programs()
    if programs is None:
        raise FileNotFoundError("there is no PostgreSQL server on this machine")
    # not in pytest's folders, which are closed to other users
    with TemporaryDirectory(prefix="ottla-postgres-") as folder:
        server = Postgres(programs, Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _user() -> pwd.struct_passwd | None:
    if os.getuid():
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL does not run as root, and there is no user postgres or nobody")
