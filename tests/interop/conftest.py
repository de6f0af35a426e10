"""One node, a real process, for all tests of this folder that do not harm it; each test has topics of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from tests.interop.clients import CLIENTS, WITHIN_S, Client
from tests.waiting import UNTENDED

from ottla.testing.process import NodeProcess, running_process

_numbers = count()
NewTopic = Callable[..., str]


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running_process(tmp_path_factory.mktemp("interop"), group_initial_rebalance_delay_ms=100, **UNTENDED) as node:
        yield node
        assert "Traceback" not in node.log(), node.log()[-4000:]


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    chosen: Client = request.param
    return chosen


@pytest.fixture
def new_topic(node: NodeProcess) -> NewTopic:
    """Makes a topic with a name of its own: `new_topic(partitions=3, max_message_bytes=2000)`."""

    def make(partitions: int = 1, **configs: str | int) -> str:
        return create_topic(node.address, f"topic-{next(_numbers)}", partitions, **configs)

    return make


def create_topic(address: str, name: str, partitions: int = 1, **configs: str | int) -> str:
    from confluent_kafka import admin as kafka_admin

    admin = kafka_admin.AdminClient({"bootstrap.servers": address})
    values = {key.replace("_", "."): str(value) for key, value in configs.items()}
    asked = kafka_admin.NewTopic(name, partitions, 1, config=values)  # type: ignore[attr-defined]
    admin.create_topics([asked], operation_timeout=WITHIN_S)[name].result(WITHIN_S)
    return name


def delete_topic(address: str, name: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_topics([name], operation_timeout=WITHIN_S)[name].result(WITHIN_S)
