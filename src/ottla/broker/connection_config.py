"""What the configs say about connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address

from ottla.env.ports import SocketOptions
from ottla.model.config import BrokerConfig
from ottla.model.config.tables.broker import BROKER_CONFIGS
from ottla.wire.connection_limits import Limits


async def connection_limits(config: BrokerConfig) -> Limits:
    names = [endpoint.name for endpoint in config.listeners.broker]
    return Limits(
        config.max_connections,
        _of_listeners(config, names, "max.connections"),
        config.max_connections_per_ip,
        await _of_addresses(str(config.get("max.connections.per.ip.overrides"))),
        config.get_int("max.connection.creation.rate"),
        _of_listeners(config, names, "max.connection.creation.rate"),
        config.listeners.inter_broker,
    )


def _of_listeners(config: BrokerConfig, names: list[str], limit: str) -> Mapping[str, int]:
    """listener.name.NAME.LIMIT, where it is set."""
    texts, found = config.layers.merged(), {}
    for name in names:
        text = texts.get(f"listener.name.{name.lower()}.{limit}")
        if text is not None:
            value = replace(BROKER_CONFIGS[limit], name=f"listener.name.{name.lower()}.{limit}").parse(text)
            assert isinstance(value, int)
            found[name] = value
    return found


async def _of_addresses(overrides: str) -> Mapping[str, int]:
    """host:count,host:count; a host may have several addresses."""
    found: dict[str, int] = {}
    for entry in filter(None, map(str.strip, overrides.split(","))):
        host, _, count = entry.rpartition(":")
        for address in await _addresses(host.strip().strip("[]")):
            found[address] = int(count)
    return found


async def _addresses(host: str) -> list[str]:
    try:
        return [str(ip_address(host))]
    except ValueError:
        pass
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(info[4][0]) for info in infos]


def idle_check_ms(idle_ms: int) -> float:
    """Often enough that nobody stays for more than a tenth longer, and not more often."""
    return min(max(idle_ms / 10, 20), 30_000) if idle_ms >= 0 else 30_000


def socket_options(config: BrokerConfig) -> SocketOptions:
    """Only what was set.

    The system knows better how large buffers should be, and Kafka's default backlog of 50 is for a thread that does
    nothing but accept; here one loop does everything.
    """
    names = {
        "backlog": "socket.listen.backlog.size",
        "send_buffer": "socket.send.buffer.bytes",
        "receive_buffer": "socket.receive.buffer.bytes",
    }
    return SocketOptions(**{field: config.get_int(name) for field, name in names.items() if config.is_set(name)})
