"""An S3 server in this process, by moto."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.request import Request, urlopen
from uuid import uuid4


class S3(NamedTuple):
    url: str
    options: dict[str, str]


@contextmanager
def s3_server() -> Iterator[S3]:
    from moto.server import ThreadedMotoServer

    bucket = f"bucket-{uuid4().hex}"  # all servers of a process have the same objects

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    try:
        with urlopen(Request(f"{endpoint}/{bucket}", method="PUT")):
            pass
        yield S3(
            f"s3://{bucket}/cluster",
            {
                "aws_endpoint": endpoint,
                "aws_region": "us-east-1",
                "aws_access_key_id": "key",
                "aws_secret_access_key": "secret",
            },
        )
    finally:
        server.stop()
