"""Broker configs: groups, offsets, transactions and producer ids."""

from typing import Final

from ottla.model.config.definition import ConfigDef, ConfigType, Importance, Update
from ottla.model.config.tables.topic import DAY, HOUR, MAX_INT, MINUTE
from ottla.model.config.validators import ENTRIES, at_least, between, list_of, one_of

BOOLEAN, INT, LIST, LONG, SHORT, STRING = (
    ConfigType.BOOLEAN,
    ConfigType.INT,
    ConfigType.LIST,
    ConfigType.LONG,
    ConfigType.SHORT,
    ConfigType.STRING,
)
HIGH, LOW = Importance.HIGH, Importance.LOW
CLUSTER = Update.CLUSTER_WIDE

GROUPS: Final = (
    ConfigDef("group.coordinator.rebalance.protocols", LIST, ("classic", "consumer", "streams"),
              "The group protocols that are served.", list_of("consumer", "classic", "share", "streams", empty=False)),
    ConfigDef("group.coordinator.threads", INT, 4, "Coordinators run on the loop here.", at_least(1), importance=HIGH,
              no_effect=True),
    ConfigDef("group.coordinator.background.threads", INT, 2, "Long assignments run in a process here.", at_least(1),
              importance=HIGH, no_effect=True),
    ConfigDef("group.coordinator.append.linger.ms", INT, -1,
              "How long writes of a coordinator are gathered; -1 adapts to the load.", at_least(-1)),
    ConfigDef("group.coordinator.cached.buffer.max.bytes", INT, (1 << 20) + 12, "Buffers up to this size are reused.",
              at_least(512 << 10), CLUSTER, no_effect=True),
    ConfigDef("group.min.session.timeout.ms", INT, 6000, "The shortest session a classic member may ask for."),
    ConfigDef("group.max.session.timeout.ms", INT, 1_800_000, "The longest session a classic member may ask for."),
    ConfigDef("group.initial.rebalance.delay.ms", INT, 3000,
              "How long the first rebalance of an empty classic group waits for more members."),
    ConfigDef("group.max.size", INT, MAX_INT, "The most members of a classic group.", at_least(1)),
)  # fmt: skip


def _sessions(kind: str) -> tuple[ConfigDef, ...]:
    """What consumer, share and streams groups have in common (KIP-848)."""
    return (
        ConfigDef(f"group.{kind}.session.timeout.ms", INT, 45_000, "A member silent for this long is removed.",
                  at_least(1)),
        ConfigDef(f"group.{kind}.min.session.timeout.ms", INT, 45_000, "The least that a group may set for that.",
                  at_least(1)),
        ConfigDef(f"group.{kind}.max.session.timeout.ms", INT, 60_000, "The most that a group may set for that.",
                  at_least(1)),
        ConfigDef(f"group.{kind}.heartbeat.interval.ms", INT, 5000, "How often members are told to report.",
                  at_least(1)),
        ConfigDef(f"group.{kind}.min.heartbeat.interval.ms", INT, 5000, "The least that a group may set for that.",
                  at_least(1)),
        ConfigDef(f"group.{kind}.max.heartbeat.interval.ms", INT, 15_000, "The most that a group may set for that.",
                  at_least(1)),
        ConfigDef(f"group.{kind}.assignment.interval.ms", INT, 1000, "The shortest time between two assignments.",
                  at_least(0), CLUSTER),
        ConfigDef(f"group.{kind}.min.assignment.interval.ms", INT, 0, "The least that a group may set for that.",
                  at_least(0)),
        ConfigDef(f"group.{kind}.max.assignment.interval.ms", INT, 15_000, "The most that a group may set for that.",
                  at_least(0)),
    )  # fmt: skip


ASSIGNOR_CLASSES: Final = "org.apache.kafka.coordinator.group.assignor"

CONSUMER_GROUPS: Final = (
    *_sessions("consumer"),
    ConfigDef("group.consumer.max.size", INT, MAX_INT, "The most members of a consumer group.", at_least(1)),
    ConfigDef("group.consumer.assignors", LIST, ("uniform", "range"),
              "The assignors; the first is the default. Kafka's classes stand for those of the same name.",
              list_of("uniform", "range", *(f"{ASSIGNOR_CLASSES}.{name}Assignor" for name in ("Uniform", "Range")),
                      empty=False)),
    ConfigDef("group.consumer.migration.policy", STRING, "bidirectional",
              "Whether groups may change between the classic and the consumer protocol while they run.",
              one_of("disabled", "downgrade", "upgrade", "bidirectional", ignore_case=True)),
    ConfigDef("group.consumer.regex.refresh.interval.ms", INT, 10 * MINUTE, "How often subscribed patterns are matched "
              "against the topics again.", at_least(10_000), internal=True),
)  # fmt: skip

SHARE_GROUPS: Final = (
    *_sessions("share"),
    ConfigDef("group.share.max.size", INT, 200, "The most members of a share group.", between(1, 1000)),
    ConfigDef("group.share.assignors", LIST, ("simple",), "The assignors of share groups.", ENTRIES),
    ConfigDef("group.share.initialize.retry.interval.ms", INT, 30_000, "The pause before state is initialised again.",
              at_least(1), importance=LOW, internal=True),
    ConfigDef("group.share.delivery.count.limit", INT, 5, "How often a record is delivered before it is given up.",
              between(2, 10)),
    ConfigDef("group.share.min.delivery.count.limit", INT, 2, "The least that a group may set for that.",
              between(2, 5)),
    ConfigDef("group.share.max.delivery.count.limit", INT, 10, "The most that a group may set for that.",
              between(5, 25)),
    ConfigDef("group.share.record.lock.duration.ms", INT, 30_000, "How long a delivered record waits for its answer.",
              between(1000, 3_600_000)),
    ConfigDef("group.share.min.record.lock.duration.ms", INT, 15_000, "The least that a group may set for that.",
              between(1000, 30_000)),
    ConfigDef("group.share.max.record.lock.duration.ms", INT, 60_000, "The most that a group may set for that.",
              between(30_000, 3_600_000)),
    ConfigDef("group.share.partition.max.record.locks", INT, 2000, "Records of a partition under way at a time.",
              between(100, 10_000)),
    ConfigDef("group.share.min.partition.max.record.locks", INT, 100, "The least that a group may set for that.",
              between(100, 2000)),
    ConfigDef("group.share.max.partition.max.record.locks", INT, 4000, "The most that a group may set for that.",
              between(2000, 10_000)),
    ConfigDef("group.share.max.share.sessions", INT, 2000, "How many share sessions are remembered.", at_least(1)),
    ConfigDef("group.share.persister.class.name", STRING,
              "org.apache.kafka.server.share.persister.DefaultStatePersister", "Where share state is kept.",
              internal=True, no_effect=True),
    ConfigDef("share.fetch.purgatory.purge.interval.requests", INT, 1000, "Finished waits leave at once here.",
              no_effect=True),
)  # fmt: skip

STREAMS_GROUPS: Final = (
    *_sessions("streams"),
    ConfigDef("group.streams.max.size", INT, MAX_INT, "The most members of a streams group.", at_least(1)),
    ConfigDef("group.streams.num.standby.replicas", INT, 0, "Standby copies of each task's state.", at_least(0)),
    ConfigDef("group.streams.max.standby.replicas", INT, 2, "The most that a group may set for that.", at_least(0)),
    ConfigDef("group.streams.initial.rebalance.delay.ms", INT, 3000,
              "How long the first assignment of a streams group waits for more members.", at_least(0)),
)  # fmt: skip

OFFSETS: Final = (
    ConfigDef("offset.metadata.max.bytes", INT, 4096, "The longest text that may go with a committed offset.",
              importance=HIGH),
    ConfigDef("offsets.commit.timeout.ms", INT, 5000, "How long a commit waits for the replicas.", at_least(1),
              importance=HIGH),
    ConfigDef("offsets.load.buffer.size", INT, 5 << 20, "Bytes read at a time when a coordinator loads.", at_least(1),
              importance=HIGH),
    ConfigDef("offsets.topic.replication.factor", SHORT, 3, "Replicas of __consumer_offsets.", at_least(1),
              importance=HIGH),
    ConfigDef("offsets.topic.num.partitions", INT, 50,
              "Partitions of __consumer_offsets; must never change once it exists.", at_least(1), importance=HIGH),
    ConfigDef("offsets.topic.segment.bytes", INT, 100 << 20, "segment.bytes of __consumer_offsets.", at_least(1),
              importance=HIGH),
    ConfigDef("offsets.topic.compression.codec", INT, 0, "The codec's number for __consumer_offsets.",
              importance=HIGH),
    ConfigDef("offsets.retention.minutes", INT, 10080, "How long offsets outlive the last member of their group.",
              at_least(1), importance=HIGH),
    ConfigDef("offsets.retention.check.interval.ms", LONG, 10 * MINUTE, "How often expired offsets are looked for.",
              at_least(1), importance=HIGH),
)  # fmt: skip

TRANSACTIONS: Final = (
    ConfigDef("transaction.state.log.min.isr", INT, 2, "min.insync.replicas of __transaction_state.", at_least(1),
              importance=HIGH),
    ConfigDef("transaction.state.log.load.buffer.size", INT, 5 << 20, "Bytes read at a time when a coordinator loads.",
              at_least(1), importance=HIGH),
    ConfigDef("transaction.state.log.replication.factor", SHORT, 3, "Replicas of __transaction_state.", at_least(1),
              importance=HIGH),
    ConfigDef("transaction.state.log.num.partitions", INT, 50,
              "Partitions of __transaction_state; must never change once it exists.", at_least(1), importance=HIGH),
    ConfigDef("transaction.state.log.segment.bytes", INT, 100 << 20, "segment.bytes of __transaction_state.",
              at_least(1), importance=HIGH),
    ConfigDef("transaction.partition.verification.enable", BOOLEAN, True,
              "Checks with the coordinator that a partition belongs to the transaction before the first append.",
              update=CLUSTER, importance=LOW),
    ConfigDef("transaction.max.timeout.ms", INT, 15 * MINUTE, "The longest transaction that may be asked for.",
              at_least(1), importance=HIGH),
    ConfigDef("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000,
              "How often overdue transactions are looked for and aborted.", at_least(1), importance=LOW),
    ConfigDef("transaction.remove.expired.transaction.cleanup.interval.ms", INT, HOUR,
              "How often expired transactional ids are looked for.", at_least(1), importance=LOW),
    ConfigDef("transaction.two.phase.commit.enable", BOOLEAN, False,
              "Lets producers keep transactions open for an outside coordinator (KIP-939).", importance=LOW),
    ConfigDef("transactional.id.expiration.ms", INT, 7 * DAY, "An unused transactional id is forgotten after this.",
              at_least(1), importance=HIGH),
    ConfigDef("producer.id.expiration.ms", INT, DAY,
              "A partition forgets an idempotent producer that has not written for this long.", at_least(1), CLUSTER,
              LOW),
    ConfigDef("producer.id.expiration.check.interval.ms", INT, 10 * MINUTE, "How often those are looked for.",
              at_least(1), importance=LOW, internal=True),
    ConfigDef("add.partitions.to.txn.retry.backoff.ms", INT, 20, "The pause before a verification is tried again.",
              at_least(1), importance=HIGH),
    ConfigDef("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, "How long verification is tried in all.",
              at_least(0), importance=HIGH),
)  # fmt: skip

SHARE_COORDINATOR: Final = (
    ConfigDef("share.coordinator.state.topic.num.partitions", INT, 50,
              "Partitions of __share_group_state; must never change once it exists.", at_least(1), importance=HIGH),
    ConfigDef("share.coordinator.state.topic.replication.factor", SHORT, 3, "Replicas of __share_group_state.",
              at_least(1), importance=HIGH),
    ConfigDef("share.coordinator.state.topic.min.isr", SHORT, 2, "min.insync.replicas of __share_group_state.",
              at_least(1), importance=HIGH),
    ConfigDef("share.coordinator.state.topic.segment.bytes", INT, 100 << 20, "segment.bytes of __share_group_state.",
              at_least(1), importance=HIGH),
    ConfigDef("share.coordinator.state.topic.compression.codec", INT, 0, "The codec's number for __share_group_state.",
              importance=HIGH),
    ConfigDef("share.coordinator.state.topic.prune.interval.ms", INT, 5 * MINUTE,
              "How often its records that are no longer needed are deleted.", at_least(1), importance=LOW,
              internal=True),
    ConfigDef("share.coordinator.cold.partition.snapshot.interval.ms", INT, 5 * MINUTE,
              "How often partitions without changes get a new snapshot.", at_least(1), importance=LOW, internal=True),
    ConfigDef("share.coordinator.threads", INT, 1, "Coordinators run on the loop here.", at_least(1), no_effect=True),
    ConfigDef("share.coordinator.snapshot.update.records.per.snapshot", INT, 500, "Updates between two snapshots.",
              between(0, 500)),
    ConfigDef("share.coordinator.load.buffer.size", INT, 5 << 20, "Bytes read at a time when it loads.", at_least(1),
              importance=HIGH),
    ConfigDef("share.coordinator.append.linger.ms", INT, -1,
              "How long its writes are gathered; -1 adapts to the load.", at_least(-1)),
    ConfigDef("share.coordinator.write.timeout.ms", INT, 5000, "How long its writes wait for the replicas.",
              at_least(1), importance=HIGH),
    ConfigDef("share.coordinator.cached.buffer.max.bytes", INT, (1 << 20) + 12, "Buffers up to this size are reused.",
              at_least(512 << 10), CLUSTER, no_effect=True),
)  # fmt: skip

ROWS: Final = GROUPS + CONSUMER_GROUPS + SHARE_GROUPS + STREAMS_GROUPS + OFFSETS + TRANSACTIONS + SHARE_COORDINATOR
