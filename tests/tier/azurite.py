"""Azurite, Microsoft's emulator of Azure's blobs: a container in it, and how a node reaches it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

from tests.waiting import until

from ottla.testing.apache_kafka import free_port, listening

PROGRAM = os.environ.get("OTTLA_AZURITE") or shutil.which("azurite-blob")
WHY_NOT = "needs Azurite: `npm install azurite`, then have azurite-blob on the PATH or name it in OTTLA_AZURITE"
_CONTAINER, _VERSION = "container", "2021-08-06"
# Those that every Azurite has, and no account in Azure.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Azurite(NamedTuple):
    port: int
    url: str = f"az://{_CONTAINER}/cluster"

    @property
    def options(self) -> dict[str, str]:
        return {
            "azure_storage_account_name": _ACCOUNT,
            "azure_storage_account_key": _KEY,
            "azure_storage_endpoint": f"http://127.0.0.1:{self.port}/{_ACCOUNT}",
        }

    @property
    def settings(self) -> dict[str, Any]:
        """Of a node; `tiered_node` takes the url."""
        return {f"rsm.config.{name}": value for name, value in self.options.items()}


@contextmanager
def azurite(folder: Path) -> Iterator[Azurite]:
    assert PROGRAM is not None, WHY_NOT
    port = free_port()
    process = subprocess.Popen(
        [
            PROGRAM, "--silent", "--disableTelemetry", "--skipApiVersionCheck", "--location", str(folder / "azurite"),
            "--blobHost", "127.0.0.1", "--blobPort", str(port),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until(lambda: listening(port) or process.poll() is not None)
        assert process.poll() is None, "Azurite did not start"
        _make_container(port)
        yield Azurite(port)
    finally:
        process.kill()
        process.wait()


def _make_container(port: int) -> None:
    """Stores are given to brokers, not made by them, so obstore has nothing for it. Signed by hand ("Shared Key")."""
    date = formatdate(usegmt=True)
    headers = {"x-ms-date": date, "x-ms-version": _VERSION}
    listed = "".join(f"{name}:{value}\n" for name, value in headers.items())
    text = f"PUT{12 * chr(10)}{listed}/{_ACCOUNT}/{_ACCOUNT}/{_CONTAINER}\nrestype:container"
    signed = hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {_ACCOUNT}:{base64.b64encode(signed).decode()}"
    url = f"http://127.0.0.1:{port}/{_ACCOUNT}/{_CONTAINER}?restype=container"
    with urlopen(Request(url, b"", {**headers, "Content-Type": ""}, method="PUT")) as answer:
        assert answer.status == 201
