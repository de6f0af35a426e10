"""Listeners: where a node listens, what it tells clients to use, and which of them are the controller's.

The rules are Kafka's: names are unique; ports are unique (two listeners may share one if one is IPv4 and the other
IPv6); 0.0.0.0 cannot be advertised; every name has a security protocol. Only PLAINTEXT is spoken so far.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from typing import Final, NamedTuple

from ottla.model.config_error import ConfigError

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
CONTROLLER_NAMES: Final = "controller.listener.names"
INTER_BROKER_NAME: Final = "inter.broker.listener.name"


class SecurityProtocol(Enum):
    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class Endpoint(NamedTuple):
    """One listener. An empty host is every interface; port 0 is any free one."""

    name: str
    host: str
    port: int
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listeners:
    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    controller_names: tuple[str, ...]
    inter_broker: str

    @property
    def broker(self) -> tuple[Endpoint, ...]:
        return tuple(end for end in self.bound if end.name not in self.controller_names)

    @property
    def controller(self) -> tuple[Endpoint, ...]:
        return tuple(end for end in self.bound if end.name in self.controller_names)

    @property
    def told(self) -> tuple[Endpoint, ...]:
        """What is advertised to clients, as far as it is known before the listeners are open."""
        return tuple(end for end in self.advertised if end.name not in self.controller_names)

    def advertise(self, ports: Mapping[str, int], this_host: Callable[[], str]) -> tuple[Endpoint, ...]:
        """What clients are told, once the listeners are open and `ports` (by name) known.

        A listener on every interface without an advertised address is told under the host's own name, as Kafka does.
        """
        return tuple(
            end._replace(host=end.host or this_host(), port=end.port or ports.get(end.name, 0)) for end in self.told
        )

    def advertise_controller(self, ports: Mapping[str, int], this_host: Callable[[], str]) -> tuple[Endpoint, ...]:
        """What nodes are told of the controller's listeners: as advertised where it is, else as bound."""
        told = {end.name: end for end in self.advertised}
        return tuple(
            end._replace(host=end.host or this_host(), port=end.port or ports.get(end.name, 0))
            for end in (told.get(bound.name, bound) for bound in self.controller)
        )


def parse_listeners(
    listeners: Sequence[str],
    advertised: Sequence[str] | None,
    protocol_map: str,
    *,
    map_is_default: bool = False,
    controller_names: Sequence[str] = (),
    inter_broker_name: str | None = None,
    inter_broker_protocol: str = "PLAINTEXT",
    broker_role: bool = True,
) -> Listeners:
    controllers = tuple(name.upper() for name in controller_names)
    protocols = _protocols(protocol_map)
    secure = {"SSL", "SASL_PLAINTEXT", "SASL_SSL"}
    named = {_listener_name(text) for text in listeners} | set(controllers)
    if map_is_default and not named & secure:
        protocols.update({name: SecurityProtocol.PLAINTEXT for name in controllers})

    bound = _endpoints(LISTENERS, listeners, protocols)
    _check_ports(bound, ",".join(listeners))
    told = bound if advertised is None else _endpoints(ADVERTISED, advertised, protocols)
    result = Listeners(bound, told, controllers, _inter_broker(inter_broker_name, inter_broker_protocol, protocols))
    _check_protocols(bound)
    _check_advertised(result, ",".join(advertised or listeners), broker_role)
    return result


_ENDPOINT: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)\Z")


def _listener_name(text: str) -> str:
    return text.partition("://")[0].strip().upper()


def _endpoints(
    config: str, texts: Sequence[str], protocols: Mapping[str, SecurityProtocol]
) -> tuple[Endpoint, ...]:  # fmt: skip
    whole = ",".join(texts)
    ends: list[Endpoint] = []
    for text in texts:
        match = _ENDPOINT.match(text.strip())
        if match is None:
            raise ConfigError(config, whole, f"{text!r} is not NAME://host:port, such as PLAINTEXT://127.0.0.1:9092")
        name, host, port = match[1].upper(), match[2], int(match[3])
        if not 0 <= port <= 65535:
            raise ConfigError(config, whole, f"port {port} of {name} is not between 0 and 65535")
        if name not in protocols:
            raise ConfigError(
                config, whole, f"listener {name} has no security protocol: add {name}:PLAINTEXT to {PROTOCOL_MAP}"
            )
        ends.append(Endpoint(name, host, port, protocols[name]))
    names = [end.name for end in ends]
    if len(set(names)) != len(names):
        raise ConfigError(config, whole, "each listener must have a different name")
    return tuple(ends)


def _protocols(text: str) -> dict[str, SecurityProtocol]:
    found: dict[str, SecurityProtocol] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in entry.rpartition(":"))
        if not colon or not name:
            raise ConfigError(PROTOCOL_MAP, text, f"{entry!r} is not NAME:PROTOCOL")
        if protocol not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise ConfigError(PROTOCOL_MAP, text, f"{protocol} is not a security protocol ({known})")
        found[name] = SecurityProtocol[protocol]
    return found


def _check_ports(ends: Sequence[Endpoint], whole: str) -> None:
    by_port: dict[int, list[Endpoint]] = {}
    for end in ends:
        if end.port:
            by_port.setdefault(end.port, []).append(end)
    for port, sharing in by_port.items():
        if len(sharing) == 1 or (len(sharing) == 2 and {_ip_version(end.host) for end in sharing} == {4, 6}):
            continue
        raise ConfigError(
            LISTENERS,
            whole,
            f"port {port} is used twice: each listener needs a port of its own, unless one of two is IPv4 and the "
            "other IPv6",
        )


def _ip_version(host: str) -> int | None:
    try:
        return ip_address(host.partition("%")[0]).version
    except ValueError:
        return None


def _check_protocols(ends: Sequence[Endpoint]) -> None:
    for end in ends:
        if end.protocol is not SecurityProtocol.PLAINTEXT:
            raise ConfigError(
                LISTENERS,
                str(end),
                f"{end.protocol.name} is not yet supported here, only PLAINTEXT (give {end.name} that protocol in "
                f"{PROTOCOL_MAP}, and keep the port away from networks you do not trust)",
            )


def _check_advertised(listeners: Listeners, whole: str, broker_role: bool) -> None:
    bound_names = {end.name for end in listeners.bound}
    told = [end for end in listeners.advertised if end.name not in listeners.controller_names]
    for end in listeners.advertised:
        if end.host == "0.0.0.0":
            raise ConfigError(
                ADVERTISED,
                whole,
                "0.0.0.0 is no address that a client could connect to: name the host or IP under which clients reach "
                "this node",
            )
    if not broker_role:
        return
    for end in told:
        if end.name not in bound_names:
            raise ConfigError(ADVERTISED, whole, f"{end.name} is not in {LISTENERS} ({', '.join(sorted(bound_names))})")
    if not told:
        raise ConfigError(
            ADVERTISED, whole, f"there is no listener for clients: do all names stand in {CONTROLLER_NAMES}?"
        )
    if listeners.inter_broker not in {end.name for end in told}:
        raise ConfigError(
            INTER_BROKER_NAME,
            listeners.inter_broker,
            f"must be one of the advertised listeners ({', '.join(end.name for end in told)})",
        )


def _inter_broker(name: str | None, protocol: str, protocols: Mapping[str, SecurityProtocol]) -> str:
    if name is None:
        return protocol.upper()
    if name.upper() not in protocols:
        raise ConfigError(INTER_BROKER_NAME, name, f"has no entry in {PROTOCOL_MAP}")
    return name.upper()
