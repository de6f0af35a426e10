"""Configs that have no test elsewhere: with another value, something else happens."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.broker.apis import test_fetch
from tests.broker.apis.altering import SET, TOPIC, change, changed
from tests.broker.apis.asking import (
    GET_TELEMETRY_SUBSCRIPTIONS,
    INIT_PRODUCER_ID,
    PRODUCE,
    PUSH_TELEMETRY,
    ask,
    create,
    metadata,
    topic_to_create,
)
from tests.waiting import PATIENCE_S, until

from ottla.model.errors import ErrorCode
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.node import RunningNode, running_node
from ottla.wire.client import ConnectionFailed

SOON = timedelta(seconds=PATIENCE_S)
_TCP_INFO_BACKLOG = struct.Struct("=28xI")  # of a socket that listens: tcpi_sacked


def connection(node: RunningNode) -> socket.socket:
    return socket.create_connection(("127.0.0.1", node.port), timeout=PATIENCE_S)


def test_broker_rack_is_told_to_clients(tmp_path: Path) -> None:
    with running_node(tmp_path, broker_rack="cellar") as node:
        assert [broker.rack for broker in metadata(node.address).brokers] == ["cellar"]


def test_default_replication_factor_is_that_of_topics_that_do_not_say(tmp_path: Path) -> None:
    with running_node(tmp_path, default_replication_factor=2) as node:
        wanted = (topic_to_create("default", 1, -1), topic_to_create("own", 1, 1))
        codes = {topic.name: topic.error_code for topic in create(node.address, *wanted).topics}

    assert codes == {"default": ErrorCode.invalid_replication_factor, "own": ErrorCode.none}


def test_metadata_log_dir_is_where_the_metadata_lie(tmp_path: Path) -> None:
    with running_node(tmp_path / "data", metadata_log_dir=str(tmp_path / "own")) as node:
        create(node.address, topic_to_create("t"))

    assert (tmp_path / "own" / "__cluster_metadata-0").is_dir()
    assert not (tmp_path / "data" / "__cluster_metadata-0").exists()


@pytest.mark.parametrize(
    ("settings", "several"),
    [
        ({}, False),
        ({"internal_metadata_log_segment_bytes": 2000}, True),
        ({"metadata_log_segment_ms": 1}, True),
    ],
)
def test_segments_of_the_metadata_log(tmp_path: Path, settings: dict[str, int], several: bool) -> None:
    with running_node(tmp_path, **settings) as node:
        for number in range(30):
            create(node.address, topic_to_create(f"t{number}"))

    assert (len(list((tmp_path / "__cluster_metadata-0").glob("*.log"))) > 1) is several
    with running_node(tmp_path, **settings) as node:
        assert len(metadata(node.address).topics) == 30


def test_metadata_log_segment_bytes_is_the_size_of_its_segments(tmp_path: Path) -> None:
    with running_node(tmp_path, metadata_log_segment_bytes=9 << 20) as node:
        assert node.on_loop(lambda: node.node.quorum.log.log.config.segment_bytes) == 9 << 20


def test_a_change_of_metadata_must_fit_into_a_batch(tmp_path: Path) -> None:
    with running_node(tmp_path, internal_metadata_max_batch_size_in_bytes=5000) as node:
        wanted = (topic_to_create("large", 100), topic_to_create("small", 1))
        codes = [create(node.address, each).topics[0].error_code for each in wanted]

    assert codes == [ErrorCode.policy_violation, ErrorCode.none]


@pytest.mark.parametrize(
    ("settings", "attribute", "expected"),
    [
        ({"log_retention_minutes": 5}, "retention_ms", 300_000),
        ({"log_retention_minutes": 5, "log_retention_ms": 7}, "retention_ms", 7),
        ({"log_retention_hours": 2}, "retention_ms", 7_200_000),
        ({"log_retention_hours": -1}, "retention_ms", -1),
        ({"log_roll_hours": 3}, "segment_ms", 10_800_000),
        ({"log_roll_jitter_hours": 1}, "segment_jitter_ms", 3_600_000),
        ({"log_flush_scheduler_interval_ms": 777}, "flush_ms", 777),
        ({"log_flush_scheduler_interval_ms": 777, "log_flush_interval_ms": 5}, "flush_ms", 5),
    ],
)
def test_other_units_for_what_topics_get(
    tmp_path: Path, settings: dict[str, int], attribute: str, expected: int
) -> None:
    with running_node(tmp_path, **settings) as node:
        create(node.address, topic_to_create("t"))
        config = node.on_loop(lambda: node.node.replicas.by_name["t", 0].log.config)

    assert getattr(config, attribute) == expected


def produce(address: str, sequence: int) -> ErrorCode:
    record = Record(None, b"x", int(time.time() * 1000))
    batch = build_batch([record], producer_id=1234, producer_epoch=0, base_sequence=sequence)
    rows = [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]
    answer = ask(address, PRODUCE, 9, transactional_id=None, acks=-1, timeout=SOON, topic_data=rows)
    code: ErrorCode = answer.responses[0].partition_responses[0].error_code
    return code


@pytest.mark.parametrize(("check_ms", "is_forgotten"), [(20, True), (600_000, False)])
def test_producers_are_forgotten_at_the_next_look(tmp_path: Path, check_ms: int, is_forgotten: bool) -> None:
    """A partition that knows a producer refuses a gap in its sequence, one that does not takes what comes."""
    settings = {"producer_id_expiration_ms": 10, "producer_id_expiration_check_interval_ms": check_ms}
    with running_node(tmp_path, **settings) as node:
        create(node.address, topic_to_create("t"))
        assert produce(node.address, 0) is ErrorCode.none
        if is_forgotten:
            until(lambda: produce(node.address, 50) is ErrorCode.none)
        else:
            time.sleep(0.3)
            assert produce(node.address, 50) is ErrorCode.out_of_order_sequence_number


@pytest.mark.parametrize(("limit_ms", "code"), [
    (900_000, ErrorCode.not_coordinator), (5000, ErrorCode.invalid_transaction_timeout),
])  # fmt: skip
def test_transaction_max_timeout_ms_bounds_what_producers_ask_for(
    tmp_path: Path, limit_ms: int, code: ErrorCode
) -> None:
    with running_node(tmp_path, transaction_max_timeout_ms=limit_ms) as node:
        answer = ask(node.address, INIT_PRODUCER_ID, 4, transactional_id="t", transaction_timeout=timedelta(seconds=60))

    assert answer.error_code is code


@pytest.mark.parametrize(("limit", "batches"), [(1024, 1), (57_671_680, 5)])
def test_fetch_max_bytes_bounds_every_answer(tmp_path: Path, limit: int, batches: int) -> None:
    """Whatever a client asks for, but for the first batch."""
    with running_node(tmp_path, fetch_max_bytes=limit) as node:
        create(node.address, topic_to_create("t"))
        for _ in range(5):
            test_fetch.produce(node.address, "t", 0, test_fetch.a_batch(900))
        (row,) = test_fetch.fetch(node.address, "t", max_bytes=1 << 30)

    assert test_fetch.whole_batches(row) == batches


@pytest.mark.parametrize(("limit_ms", "code"), [(30_000, ErrorCode.none), (0, ErrorCode.request_timed_out)])
def test_request_timeout_ms_is_how_long_the_controller_may_take(tmp_path: Path, limit_ms: int, code: ErrorCode) -> None:
    with running_node(tmp_path, request_timeout_ms=limit_ms) as node:
        create(node.address, topic_to_create("t"))
        ((found, _),) = change(node.address, changed(TOPIC, "t", ("retention.ms", SET, "5000")))

    assert found is code


@pytest.mark.parametrize(
    ("configs", "shift_ms", "code"),
    [
        ({}, -10_000, ErrorCode.none),
        ({"message.timestamp.before.max.ms": "9000"}, -10_000, ErrorCode.invalid_timestamp),
        ({}, 600_000, ErrorCode.none),
        ({"message.timestamp.after.max.ms": "500000"}, 600_000, ErrorCode.invalid_timestamp),
        ({}, 7_200_000, ErrorCode.invalid_timestamp),
        ({"message.timestamp.after.max.ms": "9000000"}, 7_200_000, ErrorCode.none),
    ],
)
def test_timestamps_too_far_from_now_are_refused(
    tmp_path: Path, configs: dict[str, str], shift_ms: int, code: ErrorCode
) -> None:
    batch = build_batch([Record(None, b"x", int(time.time() * 1000) + shift_ms)])
    with running_node(tmp_path) as node:
        create(node.address, topic_to_create("t", configs=configs))
        answer = test_fetch.produce(node.address, "t", 0, batch)

    assert answer.responses[0].partition_responses[0].error_code is code


@pytest.mark.parametrize(("limit", "code"), [(1 << 20, ErrorCode.invalid_record), (10, ErrorCode.telemetry_too_large)])
def test_telemetry_max_bytes_bounds_what_a_client_pushes(tmp_path: Path, limit: int, code: ErrorCode) -> None:
    with running_node(tmp_path, ottla_metrics_listener="127.0.0.1:0", telemetry_max_bytes=limit) as node:
        told = ask(node.address, GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=None)
        answer = ask(
            node.address, PUSH_TELEMETRY, 0, client_instance_id=told.client_instance_id,
            subscription_id=told.subscription_id, terminating=False, compression_type=0, metrics=b"no metrics at all",
        )  # fmt: skip

    assert told.telemetry_max_bytes == limit
    assert answer.error_code is code


@pytest.mark.parametrize(("limit", "is_taken"), [(1000, False), (100_000, True)])
def test_a_request_beyond_socket_request_max_bytes_closes_its_connection(
    tmp_path: Path, limit: int, is_taken: bool
) -> None:
    names = [f"topic-with-a-long-name-{number}" for number in range(100)]
    with running_node(tmp_path, socket_request_max_bytes=limit) as node:
        try:
            metadata(node.address, *names)
        except ConnectionFailed:
            assert not is_taken
        else:
            assert is_taken


@pytest.mark.parametrize(("settings", "expected"), [
    ({}, 32 << 20), ({"queued_max_request_bytes": 200 << 20}, 200 << 20),
])  # fmt: skip
def test_queued_max_request_bytes_is_the_memory_for_requests(
    tmp_path: Path, settings: dict[str, int], expected: int
) -> None:
    with running_node(tmp_path, **settings) as node:
        assert node.on_loop(lambda: node.node.listening.connections.pool.budget) == expected


def sizes(node: RunningNode) -> tuple[int, int]:
    """Of the buffers of a connection's end at the node; the kernel doubles what it is asked for."""

    def ask_kernel() -> tuple[int, int]:
        (accepted,) = node.node.listening.connections.connections
        transport: Any = accepted._transport
        sock = transport.get_extra_info("socket")
        options = socket.SO_SNDBUF, socket.SO_RCVBUF
        sent, received = (sock.getsockopt(socket.SOL_SOCKET, option) for option in options)
        return sent, received

    with closing(connection(node)):
        until(lambda: node.on_loop(lambda: len(node.node.listening.connections.connections)))
        return node.on_loop(ask_kernel)


def test_buffers_of_connections_have_the_sizes_asked_for(tmp_path: Path) -> None:
    settings = {"socket_send_buffer_bytes": 20_000, "socket_receive_buffer_bytes": 30_000}
    with running_node(tmp_path / "set", **settings) as node:
        assert sizes(node) == (40_000, 60_000)
    with running_node(tmp_path / "left", socket_send_buffer_bytes=-1) as node:
        assert sizes(node) != (40_000, 60_000)


@pytest.mark.parametrize(("settings", "expected"), [({"socket_listen_backlog_size": 7}, 7), ({}, 4096)])
def test_socket_listen_backlog_size_is_how_many_may_wait(
    tmp_path: Path, settings: dict[str, int], expected: int
) -> None:
    with running_node(tmp_path, **settings) as node:
        (listener,) = node.node.listening.listeners.values()
        server: Any = listener
        info = server._sockets[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)

    somaxconn = int(Path("/proc/sys/net/core/somaxconn").read_text())
    assert _TCP_INFO_BACKLOG.unpack_from(info)[0] == min(expected, somaxconn)
