"""Broker configs: where logs lie, and what topics get that do not say otherwise."""

from typing import Final

from ottla.model.config.definition import ConfigDef, ConfigType, Importance, Synonym, Update
from ottla.model.config.tables.topic import (
    CLEANUP_POLICIES,
    COMPRESSION_TYPES,
    DAY,
    GZIP_LEVELS,
    HOUR,
    LZ4_LEVELS,
    MAX_LONG,
    MINUTE,
    TIMESTAMP_TYPES,
    ZSTD_LEVELS,
)
from ottla.model.config.validators import ENTRIES, at_least, between, list_of

BOOLEAN, CLASS, DOUBLE, INT, LIST, LONG, STRING = (
    ConfigType.BOOLEAN,
    ConfigType.CLASS,
    ConfigType.DOUBLE,
    ConfigType.INT,
    ConfigType.LIST,
    ConfigType.LONG,
    ConfigType.STRING,
)
HIGH, LOW = Importance.HIGH, Importance.LOW
CLUSTER, PER_BROKER = Update.CLUSTER_WIDE, Update.PER_BROKER

# One setting under several names, the finest unit first: it wins.
ROLL: Final = (Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR))
ROLL_JITTER: Final = (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOUR))
RETENTION: Final = (
    Synonym("log.retention.ms"),
    Synonym("log.retention.minutes", MINUTE),
    Synonym("log.retention.hours", HOUR),
)
FLUSH: Final = (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms"))

DIRECTORIES: Final = (
    ConfigDef("log.dir", LIST, ("/tmp/kafka-logs",), "Where data lies, if log.dirs is not given.",
              list_of(empty=False), importance=HIGH),
    ConfigDef("log.dirs", LIST, None, "Where data lies: one folder or several (one for each disk).",
              list_of(empty=False), importance=HIGH),
    ConfigDef("cordoned.log.dirs", LIST, (), "Folders that get no new partitions; * for all.", ENTRIES, PER_BROKER),
    ConfigDef("log.dir.failure.timeout.ms", LONG, 30_000,
              "A node that cannot tell the controller about a failed folder for this long stops itself.",
              at_least(1), importance=LOW),
    ConfigDef("log.initial.task.delay.ms", LONG, 30_000, "How long after the start the housekeeping of logs begins.",
              at_least(0), importance=LOW, internal=True),
)  # fmt: skip

NEW_TOPICS: Final = (
    ConfigDef("num.partitions", INT, 1, "Partitions of a topic that is created without saying how many.", at_least(1)),
    ConfigDef("default.replication.factor", INT, 1, "Replicas of a topic that is created without saying how many."),
    ConfigDef("create.topic.policy.class.name", CLASS, None,
              "A class of the JVM that may refuse new topics. None may be given here.", importance=LOW, no_effect=True),
    ConfigDef("alter.config.policy.class.name", CLASS, None,
              "A class of the JVM that may refuse changes of configs. None may be given here.", importance=LOW,
              no_effect=True),
)  # fmt: skip

SEGMENTS: Final = (
    ConfigDef("log.segment.bytes", INT, 1 << 30, "The size at which a segment is closed (segment.bytes of topics).",
              at_least(1 << 20), CLUSTER, HIGH),
    ConfigDef("log.roll.ms", LONG, None, "The age at which a segment is closed; wins over log.roll.hours.",
              update=CLUSTER, importance=HIGH, synonyms=ROLL),
    ConfigDef("log.roll.hours", INT, 168, "The age at which a segment is closed (segment.ms of topics).",
              at_least(1), importance=HIGH, synonyms=ROLL),
    ConfigDef("log.roll.jitter.ms", LONG, None, "What may be taken off that age; wins over log.roll.jitter.hours.",
              update=CLUSTER, importance=HIGH, synonyms=ROLL_JITTER),
    ConfigDef("log.roll.jitter.hours", INT, 0, "What may be taken off that age at random (segment.jitter.ms).",
              at_least(0), importance=HIGH, synonyms=ROLL_JITTER),
    ConfigDef("log.index.size.max.bytes", INT, 10 << 20, "The largest index file (segment.index.bytes of topics).",
              at_least(4), CLUSTER),
    ConfigDef("log.index.interval.bytes", INT, 4096, "Bytes of log for each index entry (index.interval.bytes).",
              at_least(0), CLUSTER),
    ConfigDef("log.preallocate", BOOLEAN, False, "Whether segments get their full size at once (preallocate).",
              update=CLUSTER),
    ConfigDef("log.segment.delete.delay.ms", LONG, MINUTE, "How long deleted files stay (file.delete.delay.ms).",
              at_least(0), CLUSTER, HIGH),
)  # fmt: skip

RETAINING: Final = (
    ConfigDef("log.retention.ms", LONG, None, "How long records are kept; wins over minutes and hours; -1 for ever.",
              update=CLUSTER, importance=HIGH, synonyms=RETENTION),
    ConfigDef("log.retention.minutes", INT, None, "How long records are kept; wins over log.retention.hours.",
              importance=HIGH, synonyms=RETENTION),
    ConfigDef("log.retention.hours", INT, 168, "How long records are kept (retention.ms of topics); -1 for ever.",
              importance=HIGH, synonyms=RETENTION),
    ConfigDef("log.retention.bytes", LONG, -1, "How much of a partition is kept (retention.bytes); -1 for all.",
              update=CLUSTER, importance=HIGH),
    ConfigDef("log.retention.check.interval.ms", LONG, 5 * MINUTE, "How often it is looked for segments to delete.",
              at_least(1)),
    ConfigDef("log.cleanup.policy", LIST, ("delete",), "delete, compact or both (cleanup.policy of topics).",
              CLEANUP_POLICIES, CLUSTER),
    ConfigDef("log.local.retention.ms", LONG, -2, "local.retention.ms of topics that do not set it.",
              at_least(-2), CLUSTER),
    ConfigDef("log.local.retention.bytes", LONG, -2, "local.retention.bytes of topics that do not set it.",
              at_least(-2), CLUSTER),
)  # fmt: skip

FLUSHING: Final = (
    ConfigDef("log.flush.interval.messages", LONG, MAX_LONG, "Unsynced records allowed (flush.messages of topics).",
              at_least(1), CLUSTER, HIGH),
    ConfigDef("log.flush.interval.ms", LONG, None, "The longest time unsynced (flush.ms of topics).",
              update=CLUSTER, importance=HIGH, synonyms=FLUSH),
    ConfigDef("log.flush.scheduler.interval.ms", LONG, MAX_LONG, "How often it is looked for logs due to be synced.",
              importance=HIGH),
    ConfigDef("log.flush.offset.checkpoint.interval.ms", INT, MINUTE,
              "How often the points from which a recovery would start are written down.", at_least(0),
              importance=HIGH),
    ConfigDef("log.flush.start.offset.checkpoint.interval.ms", INT, MINUTE,
              "How often the first offsets of logs are written down.", at_least(0), importance=HIGH),
)  # fmt: skip

RECORDS: Final = (
    ConfigDef("compression.type", STRING, "producer", "The codec batches are stored in (compression.type of topics).",
              COMPRESSION_TYPES, CLUSTER, HIGH),
    ConfigDef("compression.gzip.level", INT, -1, "The level for gzip; -1 is the codec's own.", GZIP_LEVELS, CLUSTER),
    ConfigDef("compression.lz4.level", INT, 9, "The level for lz4.", LZ4_LEVELS, CLUSTER),
    ConfigDef("compression.zstd.level", INT, 3, "The level for zstd.", ZSTD_LEVELS, CLUSTER),
    ConfigDef("log.message.timestamp.type", STRING, "CreateTime",
              "Whose time records carry (message.timestamp.type of topics).", TIMESTAMP_TYPES, CLUSTER),
    ConfigDef("log.message.timestamp.before.max.ms", LONG, MAX_LONG,
              "How old a record's own timestamp may be (message.timestamp.before.max.ms).", at_least(0), CLUSTER),
    ConfigDef("log.message.timestamp.after.max.ms", LONG, HOUR,
              "How far ahead a record's own timestamp may be (message.timestamp.after.max.ms).", at_least(0), CLUSTER),
)  # fmt: skip

CLEANING: Final = (
    ConfigDef("log.cleaner.enable", BOOLEAN, True, "Whether compacted topics are compacted at all."),
    ConfigDef("log.cleaner.threads", INT, 1, "How many logs are compacted at a time.", at_least(0), CLUSTER),
    ConfigDef("log.cleaner.io.max.bytes.per.second", DOUBLE, 1.7976931348623157e308,
              "What compaction may read and write in a second.", update=CLUSTER),
    ConfigDef("log.cleaner.dedupe.buffer.size", LONG, 128 << 20, "Memory for the keys seen, over all cleaners.",
              update=CLUSTER),
    ConfigDef("log.cleaner.io.buffer.size", INT, 512 << 10, "Memory for reading and writing, over all cleaners.",
              at_least(0), CLUSTER),
    ConfigDef("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, "How full the map of keys may get.", update=CLUSTER),
    ConfigDef("log.cleaner.backoff.ms", LONG, 15_000, "How long the cleaner rests when there is nothing to do.",
              at_least(0), CLUSTER),
    ConfigDef("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, "min.cleanable.dirty.ratio of topics.",
              between(0, 1), CLUSTER),
    ConfigDef("log.cleaner.delete.retention.ms", LONG, DAY, "delete.retention.ms of topics.", at_least(0), CLUSTER),
    ConfigDef("log.cleaner.min.compaction.lag.ms", LONG, 0, "min.compaction.lag.ms of topics.", at_least(0), CLUSTER),
    ConfigDef("log.cleaner.max.compaction.lag.ms", LONG, MAX_LONG, "max.compaction.lag.ms of topics.", at_least(1),
              CLUSTER),
)  # fmt: skip

ROWS: Final = DIRECTORIES + NEW_TOPICS + SEGMENTS + RETAINING + FLUSHING + RECORDS + CLEANING
