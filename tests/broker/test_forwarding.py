"""What is asked of a broker and only the active controller can answer; three nodes in this process."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.broker.apis.asking import (
    ALTER_CONFIGS,
    API_VERSIONS,
    CREATE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_PARTITION_REASSIGNMENTS,
    ask,
)
from tests.waiting import until

from ottla.broker.forwarding import _packed
from ottla.broker.node import Node
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import ANONYMOUS, Principal
from ottla.security.principal_codec import UnreadablePrincipal, decode_principal, encode_principal
from ottla.testing.cluster import Cluster, running_cluster
from ottla.wire.build import build, request_type
from ottla.wire.codec import encode_body, request_header

ENVELOPE, TOPIC, BROKER, LOGGER = 58, 2, 4, 8


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    roles = {1: "broker,controller", 2: "broker,controller", 3: "broker,controller"}
    with running_cluster(tmp_path_factory.mktemp("forwarding"), 3, roles) as cluster:
        yield cluster


def passive(cluster: Cluster) -> Node:
    active = cluster.active_controller()
    return next(node for node in cluster.nodes.values() if node is not active)


def controller_address(cluster: Cluster, node: Node) -> str:
    return f"127.0.0.1:{cluster.controller_ports[node.config.node_id]}"


def new_topic(name: str, factor: int = 1) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": factor, "assignments": [], "configs": []}


def create(address: str, *names: str, version: int = 7, factor: int = 1) -> list[ErrorCode]:
    topics = [new_topic(name, factor) for name in names]
    answer = ask(address, CREATE_TOPICS, version, topics=topics, timeout=timedelta(seconds=30), validate_only=False)
    return [row.error_code for row in answer.topics]


@pytest.mark.parametrize("version", [2, 5, 7])
def test_a_request_comes_back_answered_in_its_own_version(cluster: Cluster, version: int) -> None:
    name = f"of-version-{version}"
    assert create(passive(cluster).address, name, version=version) == [ErrorCode.none]
    assert create(passive(cluster).address, name, version=version) == [ErrorCode.topic_already_exists]
    for node in cluster.nodes.values():
        cluster.until(lambda node=node: node.image.topic(name))  # type: ignore[misc]


def incrementally(address: str, kind: int, name: str, key: str, value: str) -> tuple[ErrorCode, str | None]:
    row = {
        "resource_type": kind,
        "resource_name": name,
        "configs": [{"name": key, "config_operation": 0, "value": value}],
    }
    (answer,) = ask(address, INCREMENTAL_ALTER_CONFIGS, 1, resources=[row], validate_only=False).responses
    return answer.error_code, answer.error_message


def test_a_broker_checks_its_own_configs_and_passes_on_the_rest(cluster: Cluster) -> None:
    node = passive(cluster)
    own, other = str(node.config.node_id), str(node.config.node_id % 3 + 1)
    assert incrementally(node.address, BROKER, own, "log.cleaner.threads", "2") == (ErrorCode.none, None)
    code, message = incrementally(node.address, BROKER, other, "log.cleaner.threads", "2")
    assert (
        code is ErrorCode.invalid_request and message == f"Unexpected broker id, expected {own}, but received {other}"
    )
    create(node.address, "configured")
    assert incrementally(node.address, TOPIC, "configured", "retention.ms", "5000") == (ErrorCode.none, None)
    code, _ = incrementally(node.address, TOPIC, "nowhere", "retention.ms", "5000")
    assert code is ErrorCode.unknown_topic_or_partition
    assert incrementally(node.address, LOGGER, own, "ottla.raft", "DEBUG") == (ErrorCode.none, None)
    row = {
        "resource_type": TOPIC,
        "resource_name": "configured",
        "configs": [{"name": "retention.ms", "value": "6000"}],
    }
    (answer,) = ask(node.address, ALTER_CONFIGS, 2, resources=[row], validate_only=False).responses
    assert answer.error_code is ErrorCode.none
    cluster.until(lambda: node.image.topic_config("configured").get("retention.ms") == "6000")


def test_a_controller_says_who_is_active_and_takes_admin_requests_itself(cluster: Cluster) -> None:
    active, other = cluster.active_controller(), passive(cluster)
    everyone = until(lambda: _controllers(cluster, other))
    assert {row.broker_id: row.port for row in everyone.brokers} == cluster.controller_ports
    assert everyone.controller_id == active.config.node_id and everyone.endpoint_type == 2
    assert create(controller_address(cluster, active), "direct") == [ErrorCode.none]
    assert create(controller_address(cluster, other), "not-here") == [ErrorCode.not_controller]
    code, _ = incrementally(controller_address(cluster, active), TOPIC, "direct", "retention.ms", "7000")
    assert code is ErrorCode.none
    answer = ask(
        controller_address(cluster, other), LIST_PARTITION_REASSIGNMENTS, 0, timeout=timedelta(seconds=9), topics=None
    )
    assert answer.error_code is ErrorCode.not_controller


def _controllers(cluster: Cluster, node: Node) -> Any:
    values = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
    answer = ask(controller_address(cluster, node), DESCRIBE_CLUSTER, 2, endpoint_type=2, **values)
    return answer if len(answer.brokers) == 3 else None


@pytest.mark.parametrize("on_broker", [True, False])
def test_the_wrong_kind_of_endpoint_is_refused_in_kafkas_words(cluster: Cluster, on_broker: bool) -> None:
    node = passive(cluster)
    address = node.address if on_broker else controller_address(cluster, node)
    values = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
    answer = ask(address, DESCRIBE_CLUSTER, 1, endpoint_type=2 if on_broker else 1, **values)
    assert answer.error_code is ErrorCode.mismatched_endpoint_type
    here, there = ("BROKER", "CONTROLLER") if on_broker else ("CONTROLLER", "BROKER")
    wanted = f"The request was sent to an endpoint of type {here}, but we wanted an endpoint of type {there}"
    assert answer.error_message == wanted


def test_a_broker_offers_what_it_passes_on_as_far_as_the_controller_can_it(cluster: Cluster) -> None:
    node = passive(cluster)
    create(node.address, "opens-the-way")

    def offered() -> dict[int, tuple[int, int]]:
        answer = ask(node.address, API_VERSIONS, 3, client_software_name="a", client_software_version="1")
        return {int(row.api_key): (row.min_version, row.max_version) for row in answer.api_keys}

    before = offered()
    versions = node.controller.versions
    assert versions is not None and before[CREATE_TOPICS] == (2, 7)
    newest = versions[CREATE_TOPICS]
    versions[CREATE_TOPICS] = newest._replace(newest=5)
    del versions[LIST_PARTITION_REASSIGNMENTS]
    now = offered()
    versions[CREATE_TOPICS] = newest
    assert now[CREATE_TOPICS] == (2, 5) and LIST_PARTITION_REASSIGNMENTS not in now
    assert now[DESCRIBE_CONFIGS] == before[DESCRIBE_CONFIGS]


# -- the envelope itself


def envelope(data: bytes, principal: bytes = encode_principal(ANONYMOUS), host: bytes = bytes(4)) -> dict[str, bytes]:
    return {"request_data": data, "request_principal": principal, "client_host_address": host}


def wrapped(principal: bytes = encode_principal(ANONYMOUS), host: bytes = bytes(4)) -> dict[str, bytes]:
    values = {"topics": [new_topic("in-an-envelope")], "timeout": timedelta(seconds=30), "validate_only": True}
    body = encode_body(build(request_type(CREATE_TOPICS, 7), values))
    return envelope(request_header(CREATE_TOPICS, 7, 77, "somebody") + body, principal, host)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (wrapped(), ErrorCode.none),
        (wrapped(host=bytes(16)), ErrorCode.none),
        (wrapped(principal=b"\x00\x09nonsense"), ErrorCode.principal_deserialization_failure),
        (wrapped(principal=b""), ErrorCode.principal_deserialization_failure),
        (wrapped(host=b"abc"), ErrorCode.invalid_request),
        (envelope(request_header(API_VERSIONS, 3, 1, "x")), ErrorCode.invalid_request),
        (envelope(b""), ErrorCode.unsupported_version),
        (envelope(request_header(CREATE_TOPICS, 7, 1, "x") + b"??"), ErrorCode.unsupported_version),
        (envelope(request_header(CREATE_TOPICS, 99, 1, "x")), ErrorCode.unsupported_version),
    ],
)
def test_errors_of_an_envelope(cluster: Cluster, sent: dict[str, bytes], code: ErrorCode) -> None:
    answer = ask(controller_address(cluster, cluster.active_controller()), ENVELOPE, 0, **sent)
    assert answer.error_code is code
    if code is ErrorCode.none:
        assert answer.response_data[:4] == (77).to_bytes(4, "big")


def test_an_envelope_for_one_that_is_not_active_says_so_and_nothing_else(cluster: Cluster) -> None:
    answer = ask(controller_address(cluster, passive(cluster)), ENVELOPE, 0, **wrapped())
    assert answer.error_code is ErrorCode.not_controller and answer.response_data is None


@pytest.mark.parametrize("principal", [ANONYMOUS, Principal("User", "zoë" * 90), Principal("Group", "")])
def test_a_principal_travels(principal: Principal) -> None:
    assert decode_principal(encode_principal(principal)) == principal


def test_a_principal_as_kafka_writes_it() -> None:
    assert encode_principal(Principal("User", "alice")) == b"\x00\x00\x05User\x06alice\x00\x00"
    for wrong in (b"\x00", b"\x00\x01\x05User\x06alice\x00\x00", b"\x00\x00\x05User\x09alice\x00\x00"):
        with pytest.raises(UnreadablePrincipal):
            decode_principal(wrong)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.1.2.3", b"\x0a\x01\x02\x03"),
        ("::ffff:10.1.2.3", b"\x0a\x01\x02\x03"),
        ("::1", bytes(15) + b"\x01"),
        ("fe80::1%eth0", b"\xfe\x80" + bytes(13) + b"\x01"),
        ("?", bytes(4)),
    ],
)
def test_a_clients_address_travels(host: str, address: bytes) -> None:
    assert _packed(host) == address
