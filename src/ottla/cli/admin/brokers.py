"""The brokers of a cluster, those that are fenced too where the cluster tells (KIP-1073)."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from ottla.cli.admin.session import Session, raise_for
from ottla.cli.cluster_options import Address

_DESCRIBE_CLUSTER = 60


class Broker(NamedTuple):
    id: int
    address: Address
    rack: str | None
    fenced: bool


class Brokers(NamedTuple):
    cluster_id: str
    brokers: tuple[Broker, ...]

    @property
    def up(self) -> dict[int, Broker]:
        return {broker.id: broker for broker in self.brokers if not broker.fenced}


async def brokers(session: Session) -> Brokers:
    """Also tells the session where they are."""
    from kio.schema.describe_cluster.v0.request import DescribeClusterRequest as Old
    from kio.schema.describe_cluster.v2.request import DescribeClusterRequest as New

    version = await session.newest(_DESCRIBE_CLUSTER, 2)
    request: Any = Old(include_cluster_authorized_operations=False)
    if version == 2:
        request = New(
            include_cluster_authorized_operations=False, endpoint_type=cast(Any, 1), include_fenced_brokers=True
        )
    answer = await session.call(request)
    raise_for(answer.error_code, answer.error_message, "cannot ask for the brokers")
    found = tuple(
        Broker(row.broker_id, Address(row.host, row.port), row.rack, version == 2 and row.is_fenced)
        for row in sorted(answer.brokers, key=lambda row: row.broker_id)
    )
    session.brokers = {broker.id: broker.address for broker in found if not broker.fenced}
    return Brokers(answer.cluster_id, found)


async def know_brokers(session: Session) -> None:
    """Unless the session has heard of them. Only those that are alive: Metadata names the dead too, for a while."""
    if not session.brokers:
        await brokers(session)


async def unregister(session: Session, node_id: int) -> None:
    from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

    answer = await session.call(UnregisterBrokerRequest(broker_id=cast(Any, node_id)))
    raise_for(answer.error_code, answer.error_message, f"cannot forget broker {node_id}")
