"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Container

from ottla.coordinator.group.classic.records import StoredMember
from ottla.coordinator.group.classic.requests import (
    Client,
    DescribedMember,
    JoinCallback,
    JoinedMember,
    JoinRequest,
    Protocol,
    SyncCallback,
)
from ottla.coordinator.group.classic.subscriptions import CONSUMER, topics_of


class Member:
    """Changed in place by its group alone; `on_join` and `on_sync` are there while it waits for that answer."""

    __slots__ = (
        "assignment", "client", "id", "instance_id", "is_new", "on_join", "on_sync", "protocol_type", "protocols",
        "rebalance_timeout_ms", "session_timeout_ms",
    )  # fmt: skip

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client: Client,
        protocol_type: str,
        protocols: tuple[Protocol, ...],
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        assignment: bytes = b"",
    ) -> None:
        self.id = member_id
        self.instance_id = instance_id
        self.client = client
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.assignment = assignment
        self.is_new = False
        """It has not been in a generation yet. It cannot send heartbeats, so it may expire while it waits."""
        self.on_join: JoinCallback | None = None
        self.on_sync: SyncCallback | None = None

    @classmethod
    def joining(cls, member_id: str, request: JoinRequest) -> Member:
        member = cls(
            member_id,
            request.instance_id,
            request.client,
            request.protocol_type,
            request.protocols,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
        )
        member.is_new = True
        return member

    @classmethod
    def restored(cls, stored: StoredMember, protocol_type: str, protocol: str | None) -> Member:
        timeout = stored.rebalance_timeout_ms
        return cls(
            stored.member_id,
            stored.instance_id,
            Client(stored.client_id, stored.client_host),
            protocol_type,
            (Protocol(protocol or "", stored.subscription),),
            stored.session_timeout_ms,
            stored.session_timeout_ms if timeout == -1 else timeout,
            stored.assignment,
        )

    def renamed(self, member_id: str) -> Member:
        """The same instance after a restart."""
        return Member(
            member_id,
            self.instance_id,
            self.client,
            self.protocol_type,
            self.protocols,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.assignment,
        )

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_heard(self) -> bool:
        """Who waits for the group need not send heartbeats."""
        return not self.is_new and (self.on_join is not None or self.on_sync is not None)

    @property
    def subscription(self) -> tuple[str, ...]:
        """The topics that a consumer wants, in order; its protocols do not differ in that."""
        topics = topics_of([self.protocols[0].metadata]) if self.protocol_type == CONSUMER and self.protocols else None
        return tuple(sorted(topics or ()))

    def metadata(self, protocol: str | None) -> bytes:
        for known in self.protocols:
            if known.name == protocol:
                return known.metadata
        raise KeyError(f"member {self.id} does not know the protocol {protocol}")

    def vote(self, candidates: Container[str]) -> str:
        """Its favourite among those that everyone knows."""
        return next(known.name for known in self.protocols if known.name in candidates)

    def stored(self, protocol: str | None, assignment: bytes) -> StoredMember:
        return StoredMember(
            self.id,
            self.instance_id,
            self.client.id,
            self.client.host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )

    def joined(self, protocol: str | None) -> JoinedMember:
        return JoinedMember(self.id, self.instance_id, self.metadata(protocol))

    def described(self, protocol: str | None) -> DescribedMember:
        metadata = b"" if protocol is None else self.metadata(protocol)
        return DescribedMember(self.id, self.instance_id, self.client, metadata, self.assignment)
