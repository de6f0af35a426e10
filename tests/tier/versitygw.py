"""versitygw, an S3 server with real files: a bucket is a folder, an object a file in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.waiting import until

from ottla.testing.apache_kafka import free_port, listening

PROGRAM = os.environ.get("OTTLA_VERSITYGW") or shutil.which("versitygw")
WHY_NOT = (
    "needs versitygw: `go install github.com/versity/versitygw/cmd/versitygw@latest`, then have it on the PATH or name "
    "it in OTTLA_VERSITYGW"
)
_BUCKET, _KEY, _SECRET = "bucket", "tests", "tests-secret"


class Gateway(NamedTuple):
    folder: Path  # of the objects
    port: int
    url: str = f"s3://{_BUCKET}/cluster"

    @property
    def options(self) -> dict[str, str]:
        return {
            "aws_endpoint": f"http://127.0.0.1:{self.port}",
            "aws_region": "us-east-1",
            "aws_access_key_id": _KEY,
            "aws_secret_access_key": _SECRET,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """Of a node; `tiered_node` takes the url."""
        return {f"rsm.config.{name}": value for name, value in self.options.items()}

    def object(self, key: str) -> Path:
        return self.folder / key

    @contextmanager
    def running(self) -> Iterator[None]:
        assert PROGRAM is not None, WHY_NOT
        where = ["--port", f"127.0.0.1:{self.port}", "posix", str(self.folder.parent.parent)]
        process = subprocess.Popen(
            [PROGRAM, "--access", _KEY, "--secret", _SECRET, *where],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until(lambda: listening(self.port) or process.poll() is not None)
            assert process.poll() is None, "versitygw did not start"
            yield
        finally:
            process.kill()
            process.wait()


def gateway(folder: Path) -> Gateway:
    """Not running yet."""
    objects = folder / "s3" / _BUCKET / "cluster"
    objects.mkdir(parents=True)
    return Gateway(objects, free_port())
