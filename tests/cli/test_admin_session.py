"""What commands say of a broker that takes a connection and then is silent, as one that is paused."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.cli.admin import session
from ottla.cli.admin.session import Session
from ottla.cli.admin.topics import topics
from ottla.cli.cluster_options import Address, Cluster
from ottla.model.errors import OttlaError


@pytest.fixture
def silent() -> Iterator[Cluster]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Cluster((Address(*listener.getsockname()),), 0.2)


@pytest.mark.parametrize(
    "ask",
    [lambda there: topics(there, ()), lambda there: there.newest(16, 5)],
    ids=["a question", "which versions it has"],
)
def test_its_silence_is_told_after_the_time_that_was_given(silent: Cluster, ask: Callable[[Session], Any]) -> None:
    with pytest.raises(OttlaError, match=r"has not answered within 0\.2 s\. .* more time by --timeout"):
        session.run(silent, ask)
