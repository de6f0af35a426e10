from __future__ import annotations

from typing import Any

from confluent_kafka.admin import AdminClient
from tests.broker.apis.asking import DESCRIBE_CLUSTER, ask
from tests.waiting import PATIENCE_S

from ottla.model.errors import ErrorCode
from ottla.testing.node import RunningNode

NOT_ASKED = -(2**31)
ALL_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))


def describe(address: str, version: int = 2, endpoint_type: int = 1, operations: bool = False) -> Any:
    return ask(
        address,
        DESCRIBE_CLUSTER,
        version,
        include_cluster_authorized_operations=operations,
        endpoint_type=endpoint_type,
        include_fenced_brokers=False,
    )


def test_the_cluster_is_told_with_its_brokers(node: RunningNode) -> None:
    answer = describe(node.address, operations=True)

    (broker,) = answer.brokers
    assert (answer.cluster_id, answer.controller_id) == (node.node.cluster_id, 1)
    assert (broker.broker_id, broker.host, broker.port, broker.is_fenced) == (1, "127.0.0.1", node.port, False)
    assert answer.cluster_authorized_operations == ALL_OPERATIONS
    assert describe(node.address).cluster_authorized_operations == NOT_ASKED


def test_controllers_are_not_told_on_a_brokers_listener(address: str) -> None:
    assert describe(address, endpoint_type=2).error_code is ErrorCode.mismatched_endpoint_type
    assert describe(address, endpoint_type=3).error_code is ErrorCode.unsupported_endpoint_type
    assert describe(address, version=0, endpoint_type=3).error_code is ErrorCode.none  # which has no such field


def test_librdkafka_describes_the_cluster(node: RunningNode) -> None:
    admin = AdminClient({"bootstrap.servers": node.address})

    described = admin.describe_cluster().result(PATIENCE_S)

    assert described.cluster_id == node.node.cluster_id
    assert [broker.id for broker in described.nodes] == [1]
