from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.why.given import NODE

from ottla.testing.process import NodeProcess, running_process


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running_process(tmp_path_factory.mktemp("why"), **NODE) as node:
        yield node
        assert "Traceback" not in node.log(), node.log()[-4000:]
