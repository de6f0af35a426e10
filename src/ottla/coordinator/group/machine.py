"""What one partition of `__consumer_offsets` holds: committed offsets and groups, each with a home of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final

from ottla.coordinator.group.classic.core import Limits, Surroundings
from ottla.coordinator.group.classic.groups import ClassicGroups
from ottla.coordinator.group.classic.records import KEY_TYPE as GROUP_KEY
from ottla.coordinator.group.events import EventSink
from ottla.coordinator.group.offset_records import KEY_TYPES as OFFSET_KEYS
from ottla.coordinator.group.offset_sweep import OffsetSweep
from ottla.coordinator.group.offsets import Offsets
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.coordinator.shard import Shard
from ottla.env.ports import Env
from ottla.model.config import BrokerConfig
from ottla.model.errors import ErrorCode

_TYPE: Final = Struct(">h")
_MINUTE_MS: Final = 60_000


class GroupMachine:
    """Sends each record to the part that it belongs to; parts know nothing of the log."""

    def __init__(
        self, shard: Shard[GroupMachine], env: Env, config: Callable[[], BrokerConfig], note: EventSink
    ) -> None:
        now_ms = env.clock.now_ms

        around = Surroundings(shard, now_ms, lambda: str(env.random.uuid()), _limits(config()), note)
        self.classic = ClassicGroups(shard.timeline, around)
        self.offsets = Offsets(
            shard.timeline, self.classic, now_ms, lambda: config().get_int("offset.metadata.max.bytes")
        )
        self.sweep = OffsetSweep(
            self.offsets.table,
            self.classic,
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
        elif kind == GROUP_KEY:
            self.classic.replay(record)

    def end_transaction(self, producer_id: int, producer_epoch: int, *, is_commit: bool) -> None:
        """Commits of offsets within a transaction take effect with its end."""
        self.offsets.table.end_transaction(producer_id, is_commit=is_commit)

    def started(self) -> None:
        self.classic.started()
        self.sweep.start()

    def stopped(self) -> None:
        self.classic.stopped()

    # -- what concerns groups and their offsets alike

    def delete(self, group_ids: Iterable[str]) -> Outcome[list[ErrorCode]]:
        """Groups without members go with their offsets; errors in the order of the ids."""
        errors: list[ErrorCode] = []
        records: list[StoredRecord] = []
        for group_id in group_ids:
            errors.append(self.classic.check_delete(group_id))
            if errors[-1] is ErrorCode.none:
                records += [*self.offsets.delete_all(group_id), self.classic.deletion(group_id)]
        return Outcome(errors, records)


def _limits(config: BrokerConfig) -> Limits:
    return Limits(
        config.get_int("group.initial.rebalance.delay.ms"),
        config.get_int("group.max.size"),
        config.get_int("group.min.session.timeout.ms"),
        config.get_int("group.max.session.timeout.ms"),
    )
