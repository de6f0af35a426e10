from typing import Any

import pytest

from ottla.model.config import ConfigError, broker_config, standalone
from ottla.model.listeners import Endpoint, Listeners, SecurityProtocol

NODE = standalone("/data", 9092)
PLAIN = SecurityProtocol.PLAINTEXT


def listeners(**given: Any) -> Listeners:
    return broker_config(NODE | {name.replace("_", "."): value for name, value in given.items()}).listeners


def test_a_node_that_is_told_nothing_listens_on_loopback_only() -> None:
    assert listeners().bound == (Endpoint("PLAINTEXT", "127.0.0.1", 9092, PLAIN),)
    assert listeners().advertised == listeners().bound


def test_names_hosts_and_ports_are_read() -> None:
    found = listeners(
        listeners="inside://[::1]:1, OUTSIDE://:2",
        listener_security_protocol_map="INSIDE:PLAINTEXT,outside:plaintext",
        inter_broker_listener_name="inside",
    )
    assert found.bound == (Endpoint("INSIDE", "::1", 1, PLAIN), Endpoint("OUTSIDE", "", 2, PLAIN))
    assert found.inter_broker == "INSIDE"
    assert str(found.bound[0]) == "INSIDE://[::1]:1"


def test_the_controllers_listeners_are_kept_apart() -> None:
    found = listeners(
        listeners="PLAINTEXT://h:1,CONTROLLER://h:2",
        controller_listener_names="CONTROLLER",
        controller_quorum_voters="1@h:2",
    )
    assert [end.name for end in found.broker] == ["PLAINTEXT"]
    assert [end.name for end in found.controller] == ["CONTROLLER"]
    assert [end.name for end in found.advertise({}, lambda: "me")] == ["PLAINTEXT"]


def test_advertised_addresses_get_the_port_and_host_that_turned_out() -> None:
    found = listeners(listeners="PLAINTEXT://:0")
    assert found.advertise({"PLAINTEXT": 4711}, lambda: "me") == (Endpoint("PLAINTEXT", "me", 4711, PLAIN),)


def test_clients_are_told_what_is_advertised() -> None:
    found = listeners(listeners="PLAINTEXT://0.0.0.0:9092", advertised_listeners="PLAINTEXT://example.org:443")
    assert found.advertise({"PLAINTEXT": 9092}, lambda: "me") == (Endpoint("PLAINTEXT", "example.org", 443, PLAIN),)


def test_one_port_may_serve_ipv4_and_ipv6() -> None:
    names = {"listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT", "inter_broker_listener_name": "A"}
    assert len(listeners(listeners="A://127.0.0.1:9,B://[::1]:9", **names).bound) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"listeners": "PLAINTEXT//h:1"}, "is not NAME://host:port"),
        ({"listeners": "PLAINTEXT://h"}, "is not NAME://host:port"),
        ({"listeners": "PLAINTEXT://h:70000"}, "port 70000 of PLAINTEXT is not between"),
        ({"listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"}, "different name"),
        ({"listeners": "OTHER://h:1"}, "listener OTHER has no security protocol: add OTHER:PLAINTEXT to listener.sec"),
        ({"listeners": "SSL://h:1"}, "SSL is not yet supported"),
        ({"listeners": "PLAINTEXT://h:1,SASL_SSL://h:2"}, "SASL_SSL is not yet supported"),
        ({"listener_security_protocol_map": "PLAINTEXT:TELNET"}, "TELNET is not a security protocol"),
        ({"listener_security_protocol_map": "PLAINTEXT"}, "'PLAINTEXT' is not NAME:PROTOCOL"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "0.0.0.0 is no address"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "0.0.0.0 is no address"),
        (
            {
                "advertised_listeners": "PLAINTEXT://h:1,B://h:2",
                "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
            },
            "B is not in listeners",
        ),
        ({"controller_listener_names": "PLAINTEXT"}, "there is no listener for clients"),
        ({"controller_listener_names": "CONTROLLER"}, "CONTROLLER must stand in listeners too"),
        (
            {
                "process_roles": "broker",
                "listeners": "PLAINTEXT://:1,CONTROLLER://:2",
                "controller_listener_names": "CONTROLLER",
                "controller_quorum_voters": "9@h:1",
            },
            "CONTROLLER is for controllers, and this node is only a broker",
        ),
        ({"controller_quorum_voters": "1@h:1"}, "a controller with others needs a listener"),
        ({"inter_broker_listener_name": "NONE"}, "has no entry in listener.security.protocol.map"),
        ({"inter_broker_listener_name": "SSL"}, "must be one of the advertised listeners"),
    ],
)
def test_what_kafka_would_refuse_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        listeners(**given)


def test_two_listeners_cannot_share_a_port() -> None:
    names = {"listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT", "inter_broker_listener_name": "A"}
    with pytest.raises(ConfigError, match="port 9 is used twice"):
        listeners(listeners="A://one:9,B://two:9", **names)


def test_nodes_talk_to_each_other_by_the_listener_of_the_protocol_if_none_is_named() -> None:
    assert listeners().inter_broker == "PLAINTEXT"
    with pytest.raises(ConfigError, match=r"SSL"):
        listeners(security_inter_broker_protocol="SSL")
    with pytest.raises(ConfigError, match=r"security\.inter\.broker\.protocol"):
        listeners(security_inter_broker_protocol="CARRIER_PIGEON")
