"""A node for all tests of a file; each test takes topics of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from tests.broker.apis.asking import create, topic_to_create
from tests.waiting import UNTENDED

from ottla.testing.node import RunningNode, running_node

_numbers = count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("node"), num_partitions=2, **UNTENDED) as running:
        yield running


@pytest.fixture(scope="module")
def address(node: RunningNode) -> str:
    return node.address


@pytest.fixture
def new_topic(address: str) -> Callable[..., str]:
    """Creates a topic with a name of its own."""

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"topic-{next(_numbers)}"
        overrides = {key.replace("_", "."): value for key, value in configs.items()}
        (created,) = create(address, topic_to_create(name, partitions, configs=overrides)).topics
        assert created.error_code == 0, created
        return name

    return make
