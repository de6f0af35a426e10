"""Listeners of a running node, as they can be changed there: what is advertised stays."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.broker.apis.altering import BROKER, SET, change, changed, set_config
from tests.broker.apis.asking import metadata
from tests.interop.raw import API_VERSIONS, Raw

from ottla.model.errors import ErrorCode
from ottla.testing.apache_kafka import free_port
from ottla.testing.node import RunningNode, running_node

PROTOCOLS = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"


def is_open(port: int) -> bool:
    try:
        with Raw(port) as raw:
            return raw.ask(API_VERSIONS, 0).error_code is ErrorCode.none
    except OSError:
        return False


def listeners(*named: tuple[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in named)


def test_a_listener_that_is_not_advertised_comes_and_goes(tmp_path: Path) -> None:
    port, extra, elsewhere = free_port(), free_port(), free_port()
    settings = {
        "listeners": listeners(("PLAINTEXT", port)),
        "advertised_listeners": listeners(("PLAINTEXT", port)),
        "listener_security_protocol_map": PROTOCOLS,
    }
    with running_node(tmp_path, **settings) as node:
        set_config(node.address, BROKER, "1", listeners=listeners(("PLAINTEXT", port), ("EXTRA", extra)))
        assert is_open(port) and is_open(extra)
        with Raw(extra) as raw:
            assert metadata(f"127.0.0.1:{extra}").brokers == ()  # on this listener none is advertised
            set_config(node.address, BROKER, "1", listeners=listeners(("PLAINTEXT", port)))
            assert raw.is_closed_by_node()
        assert is_open(port) and not is_open(extra)
        # another address is taken, and counts after a restart: as in Kafka
        set_config(node.address, BROKER, "1", listeners=listeners(("PLAINTEXT", elsewhere)))
        assert is_open(port) and not is_open(elsewhere)
    with running_node(tmp_path, **settings):
        assert is_open(elsewhere)


def test_a_port_that_is_taken_costs_only_that_listener(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    settings = {
        "listeners": listeners(("PLAINTEXT", port)),
        "advertised_listeners": listeners(("PLAINTEXT", port)),
        "listener_security_protocol_map": PROTOCOLS,
    }
    with running_node(tmp_path, **settings) as node, socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = listeners(("PLAINTEXT", port), ("EXTRA", taken.getsockname()[1]))
        set_config(node.address, BROKER, "1", listeners=wanted)
        assert is_open(port)
        assert "cannot listen on EXTRA" in caplog.text


def refusal(node: RunningNode, value: str) -> str:
    ((code, message),) = change(node.address, changed(BROKER, "1", ("listeners", SET, value)))
    assert code is ErrorCode.invalid_request
    return message or ""


def test_what_is_advertised_cannot_be_altered(tmp_path: Path) -> None:
    port = free_port()
    with running_node(
        tmp_path, listeners=listeners(("PLAINTEXT", port)), listener_security_protocol_map=PROTOCOLS
    ) as node:
        told = refusal(node, listeners(("PLAINTEXT", port), ("EXTRA", free_port())))
        assert "Advertised listeners cannot be altered" in told
        assert "no security protocol" in refusal(node, listeners(("PLAINTEXT", port), ("OTHER", free_port())))
