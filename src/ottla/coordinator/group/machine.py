"""What one partition of `__consumer_offsets` holds: committed offsets and groups, each with a home of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Final, cast

from ottla.coordinator.group.assignors.catalogue import ASSIGNORS
from ottla.coordinator.group.classic import core as classic
from ottla.coordinator.group.classic.groups import ClassicGroups
from ottla.coordinator.group.classic.records import KEY_TYPE as CLASSIC_KEY
from ottla.coordinator.group.consumer import core as consumer
from ottla.coordinator.group.consumer.groups import ConsumerGroups
from ottla.coordinator.group.consumer.records import KEY_TYPES as CONSUMER_KEYS
from ottla.coordinator.group.events import EventSink
from ottla.coordinator.group.migration.classic_requests import ClassicRequests
from ottla.coordinator.group.migration.moves import Rules
from ottla.coordinator.group.migration.policy import Policy
from ottla.coordinator.group.offset_records import KEY_TYPES as OFFSET_KEYS
from ottla.coordinator.group.offset_sweep import OffsetSweep
from ottla.coordinator.group.offsets import Offsets
from ottla.coordinator.group.owners import BothKinds
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.coordinator.offload import Offload
from ottla.coordinator.shard import Shard
from ottla.env.ports import Env
from ottla.metadata.image import MetadataImage
from ottla.model import ids
from ottla.model.config import BrokerConfig
from ottla.model.config.tables.coordinators import ASSIGNOR_CLASSES
from ottla.model.errors import ErrorCode

_TYPE: Final = Struct(">h")
_MINUTE_MS: Final = 60_000


class GroupMachine:
    """Sends each record to the part that it belongs to; parts know nothing of the log."""

    def __init__(
        self,
        shard: Shard[GroupMachine],
        env: Env,
        config: Callable[[], BrokerConfig],
        image: Callable[[], MetadataImage],
        note: EventSink,
    ) -> None:
        now_ms = env.clock.now_ms
        self.classic = ClassicGroups(
            shard.timeline,
            classic.Surroundings(shard, now_ms, lambda: str(env.random.uuid()), _limits(config()), note),
        )
        self.consumer = ConsumerGroups(
            shard.timeline,
            consumer.Surroundings(
                shard,
                Offload(env, shard),
                now_ms,
                lambda: ids.uuid_text(ids.random_uuid(env.random)),
                image,
                GroupSettings(config, image).of_consumers,
                _consumer_limits(config()),
                note,
            ),
        )
        self.owners = BothKinds(self.classic, self.consumer, _migration_rules(config()))
        self.members = ClassicRequests(self.classic, self.consumer)
        self.offsets = Offsets(
            shard.timeline, self.owners, now_ms, lambda: config().get_int("offset.metadata.max.bytes")
        )
        self.sweep = OffsetSweep(
            self.offsets.table,
            self.owners,
            shard,
            now_ms,
            lambda: config().get_int("offsets.retention.minutes") * _MINUTE_MS,
            lambda: config().get_int("offsets.retention.check.interval.ms"),
        )

    def replay(self, record: StoredRecord, producer_id: int, producer_epoch: int) -> None:
        """Records of kinds that are not known here stay in the log for those who know them."""
        (kind,) = _TYPE.unpack_from(record.key)
        if kind in OFFSET_KEYS:
            self.offsets.replay(record, producer_id)
            return
        self.offsets.something_else()
        if kind == CLASSIC_KEY:
            self.classic.replay(record)
        elif kind in CONSUMER_KEYS:
            self.consumer.replay(record, kind)

    def end_transaction(self, producer_id: int, producer_epoch: int, *, is_commit: bool) -> None:
        """Commits of offsets within a transaction take effect with its end."""
        self.offsets.something_else()
        self.offsets.table.end_transaction(producer_id, is_commit=is_commit)

    def started(self) -> None:
        self.classic.started()
        self.consumer.started()
        self.sweep.start()

    def stopped(self) -> None:
        self.classic.stopped()

    # -- what concerns groups and their offsets alike

    def delete(self, group_ids: Iterable[str]) -> Outcome[list[ErrorCode]]:
        """Groups without members go with their offsets; errors in the order of the ids."""
        errors: list[ErrorCode] = []
        records: list[StoredRecord] = []
        for group_id in group_ids:
            errors.append(self.owners.check_delete(group_id))
            if errors[-1] is ErrorCode.none:
                records += [*self.offsets.delete_all(group_id), *self.owners.deletion(group_id)]
        return Outcome(errors, records)


def _limits(config: BrokerConfig) -> classic.Limits:
    return classic.Limits(
        config.get_int("group.initial.rebalance.delay.ms"),
        config.get_int("group.max.size"),
        config.get_int("group.min.session.timeout.ms"),
        config.get_int("group.max.session.timeout.ms"),
    )


def _consumer_limits(config: BrokerConfig) -> consumer.Limits:
    return consumer.Limits(
        config.get_int("group.consumer.max.size"),
        assignors_of(config),
        config.get_int("group.consumer.regex.refresh.interval.ms"),
    )


def _migration_rules(config: BrokerConfig) -> Rules:
    policy = Policy(str(config.get("group.consumer.migration.policy")).lower())
    return Rules(policy, config.get_int("group.max.size"))


def assignors_of(config: BrokerConfig) -> tuple[str, ...]:
    """By their names; they may be given by the names of Kafka's classes."""
    by_class = {f"{ASSIGNOR_CLASSES}.{name.title()}Assignor": name for name in ASSIGNORS}
    names = cast(Sequence[str], config.get("group.consumer.assignors"))
    return tuple(by_class.get(name, name) for name in names)
