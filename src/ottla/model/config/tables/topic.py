"""The configs of a topic (Apache Kafka 4.3), each with the broker configs that it falls back to."""

from typing import Final

from ottla.model.config.definition import ConfigDef, ConfigType, Synonym, Update, table
from ottla.model.config.validators import THROTTLED_REPLICAS, at_least, between, either, list_of, one_of

BOOLEAN, DOUBLE, INT, LIST, LONG, STRING = (
    ConfigType.BOOLEAN,
    ConfigType.DOUBLE,
    ConfigType.INT,
    ConfigType.LIST,
    ConfigType.LONG,
    ConfigType.STRING,
)
MINUTE: Final = 60 * 1000
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
MAX_LONG: Final = (1 << 63) - 1
MAX_INT: Final = (1 << 31) - 1
UPDATABLE: Final = Update.CLUSTER_WIDE  # every topic config can change while the node runs


def _from(*names: str) -> tuple[Synonym, ...]:
    """The broker configs to fall back to; a name's last word gives its unit."""
    factors = {"hours": HOUR, "minutes": MINUTE}
    return tuple(Synonym(name, factors.get(name.rpartition(".")[2], 1)) for name in names)


COMPRESSION_TYPES: Final = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES: Final = list_of("compact", "delete")
TIMESTAMP_TYPES: Final = one_of("CreateTime", "LogAppendTime")
GZIP_LEVELS: Final = either(between(1, 9), -1)
LZ4_LEVELS: Final = between(1, 17)
ZSTD_LEVELS: Final = between(-131072, 22)

ROWS: Final = (
    ConfigDef(
        "segment.bytes", INT, 1 << 30, "A segment file is closed, and a new one begun, before it outgrows this size.",
        at_least(1 << 20), UPDATABLE, synonyms=_from("log.segment.bytes"),
    ),
    ConfigDef(
        "segment.ms", LONG, 7 * DAY,
        "A segment is closed at the latest this long after its first record, even if it is small, so that retention "
        "and compaction can get at it.",
        at_least(1), UPDATABLE, synonyms=_from("log.roll.ms", "log.roll.hours"),
    ),
    ConfigDef(
        "segment.jitter.ms", LONG, 0,
        "A random time up to this is taken off segment.ms, so that many partitions do not roll at one moment.",
        at_least(0), UPDATABLE, synonyms=_from("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ),
    ConfigDef(
        "segment.index.bytes", INT, 10 << 20, "How large an index file may get; a full index closes its segment.",
        at_least(4), UPDATABLE, synonyms=_from("log.index.size.max.bytes"),
    ),
    ConfigDef(
        "flush.messages", LONG, MAX_LONG,
        "After so many unsynced records the log is synced to disk, before the last of them is acknowledged; 1 syncs "
        "every append. By default the operating system decides.",
        at_least(1), UPDATABLE, synonyms=_from("log.flush.interval.messages"),
    ),
    ConfigDef(
        "flush.ms", LONG, MAX_LONG, "Records stay unsynced for no longer than this. By default no limit.",
        at_least(0), UPDATABLE, synonyms=_from("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ),
    ConfigDef(
        "retention.bytes", LONG, -1,
        "With the delete policy, old segments go once a partition holds more than this; -1 keeps everything.",
        update=UPDATABLE, synonyms=_from("log.retention.bytes"),
    ),
    ConfigDef(
        "retention.ms", LONG, 7 * DAY,
        "With the delete policy, segments go when their newest record is older than this; -1 keeps everything.",
        at_least(-1), UPDATABLE, synonyms=_from("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ),
    ConfigDef(
        "max.message.bytes", INT, (1 << 20) + 12, "The largest batch of records taken, counted as sent (compressed).",
        at_least(0), UPDATABLE, synonyms=_from("message.max.bytes"),
    ),
    ConfigDef(
        "index.interval.bytes", INT, 4096,
        "An index entry is written about every so many bytes of log. Fewer bytes find an offset faster, in a larger "
        "index.",
        at_least(0), UPDATABLE, synonyms=_from("log.index.interval.bytes"),
    ),
    ConfigDef(
        "delete.retention.ms", LONG, DAY,
        "How long a tombstone stays in a compacted topic, so that readers who are behind still see the deletion.",
        at_least(0), UPDATABLE, synonyms=_from("log.cleaner.delete.retention.ms"),
    ),
    ConfigDef(
        "min.compaction.lag.ms", LONG, 0, "Records younger than this are never compacted away.",
        at_least(0), UPDATABLE, synonyms=_from("log.cleaner.min.compaction.lag.ms"),
    ),
    ConfigDef(
        "max.compaction.lag.ms", LONG, MAX_LONG, "Records older than this are due for compaction, dirty ratio or not.",
        at_least(1), UPDATABLE, synonyms=_from("log.cleaner.max.compaction.lag.ms"),
    ),
    ConfigDef(
        "file.delete.delay.ms", LONG, MINUTE, "How long a file marked as deleted stays on disk for those reading it.",
        at_least(0), UPDATABLE, synonyms=_from("log.segment.delete.delay.ms"),
    ),
    ConfigDef(
        "min.cleanable.dirty.ratio", DOUBLE, 0.5,
        "A log is compacted once this share of it has not been compacted yet. Lower saves disk and costs more work.",
        between(0, 1), UPDATABLE, synonyms=_from("log.cleaner.min.cleanable.ratio"),
    ),
    ConfigDef(
        "cleanup.policy", LIST, ("delete",),
        "What happens to old records: delete drops segments by time and size, compact keeps the newest record of each "
        "key; both may be given.",
        CLEANUP_POLICIES, UPDATABLE, synonyms=_from("log.cleanup.policy"),
    ),
    ConfigDef(
        "unclean.leader.election.enable", BOOLEAN, False,
        "Lets a replica that is not in sync lead when no other is left: available again, with records lost.",
        update=UPDATABLE, synonyms=_from("unclean.leader.election.enable"),
    ),
    ConfigDef(
        "min.insync.replicas", INT, 1,
        "With acks=all, so many replicas must be in sync (the leader counts) or the write is refused.",
        at_least(1), UPDATABLE, synonyms=_from("min.insync.replicas"),
    ),
    ConfigDef(
        "compression.type", STRING, "producer",
        "The codec in which batches are stored; producer leaves them as they were sent.",
        COMPRESSION_TYPES, UPDATABLE, synonyms=_from("compression.type"),
    ),
    ConfigDef(
        "compression.gzip.level", INT, -1, "The level used when compression.type is gzip; -1 is the codec's own.",
        GZIP_LEVELS, UPDATABLE, synonyms=_from("compression.gzip.level"),
    ),
    ConfigDef(
        "compression.lz4.level", INT, 9, "The level used when compression.type is lz4.",
        LZ4_LEVELS, UPDATABLE, synonyms=_from("compression.lz4.level"),
    ),
    ConfigDef(
        "compression.zstd.level", INT, 3, "The level used when compression.type is zstd.",
        ZSTD_LEVELS, UPDATABLE, synonyms=_from("compression.zstd.level"),
    ),
    ConfigDef(
        "preallocate", BOOLEAN, False, "Gives a new segment file its full size on disk at once.",
        update=UPDATABLE, synonyms=_from("log.preallocate"),
    ),
    ConfigDef(
        "message.timestamp.type", STRING, "CreateTime",
        "Whose time a record carries: the producer's (CreateTime) or the broker's at the append (LogAppendTime).",
        TIMESTAMP_TYPES, UPDATABLE, synonyms=_from("log.message.timestamp.type"),
    ),
    ConfigDef(
        "message.timestamp.before.max.ms", LONG, MAX_LONG,
        "With CreateTime, a record whose timestamp lies further in the past than this is refused.",
        at_least(0), UPDATABLE, synonyms=_from("log.message.timestamp.before.max.ms"),
    ),
    ConfigDef(
        "message.timestamp.after.max.ms", LONG, HOUR,
        "With CreateTime, a record whose timestamp lies further in the future than this is refused.",
        at_least(0), UPDATABLE, synonyms=_from("log.message.timestamp.after.max.ms"),
    ),
    ConfigDef(
        "leader.replication.throttled.replicas", LIST, (),
        "The replicas whose leaders count followers' reads against the replication quota; * for all.",
        THROTTLED_REPLICAS, UPDATABLE,
    ),
    ConfigDef(
        "follower.replication.throttled.replicas", LIST, (),
        "The replicas whose followers count their reads against the replication quota; * for all.",
        THROTTLED_REPLICAS, UPDATABLE,
    ),
    ConfigDef(
        "remote.storage.enable", BOOLEAN, False, "Copies closed segments of this topic to the remote tier.",
        update=UPDATABLE,
    ),
    ConfigDef(
        "local.retention.ms", LONG, -2,
        "How long segments that are in the remote tier stay on local disk too; -2 means as long as retention.ms.",
        at_least(-2), UPDATABLE, synonyms=_from("log.local.retention.ms"),
    ),
    ConfigDef(
        "local.retention.bytes", LONG, -2,
        "How much of what is in the remote tier stays on local disk too; -2 means as much as retention.bytes.",
        at_least(-2), UPDATABLE, synonyms=_from("log.local.retention.bytes"),
    ),
    ConfigDef(
        "remote.log.copy.disable", BOOLEAN, False,
        "Stops copying to the remote tier; what is there stays readable and expires as usual.",
        update=UPDATABLE,
    ),
    ConfigDef(
        "remote.log.delete.on.disable", BOOLEAN, False,
        "Allows remote.storage.enable to be turned off, by deleting what is in the remote tier.",
        update=UPDATABLE,
    ),
    ConfigDef(
        "internal.segment.bytes", INT, None, "For tests: overrides segment.bytes and may be smaller than it allows.",
        update=UPDATABLE, internal=True,
    ),
)  # fmt: skip

TOPIC_CONFIGS: Final = table(ROWS)
