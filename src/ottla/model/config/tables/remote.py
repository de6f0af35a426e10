"""Broker configs: the remote tier. Where its store is stands in `rsm.config.url`."""

from typing import Final

from ottla.model.config.definition import ConfigDef, ConfigType, Importance, Update
from ottla.model.config.tables.topic import MAX_LONG, MINUTE
from ottla.model.config.validators import NON_EMPTY, at_least, between

BOOLEAN, DOUBLE, INT, LONG, STRING = (
    ConfigType.BOOLEAN,
    ConfigType.DOUBLE,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.STRING,
)
LOW = Importance.LOW
CLUSTER = Update.CLUSTER_WIDE

PLUGINS: Final = (
    ConfigDef("remote.log.storage.system.enable", BOOLEAN, False, "Whether topics may use the remote tier."),
    ConfigDef("remote.log.storage.manager.class.name", STRING, None,
              "A class of the JVM; here the store is named by rsm.config.url.", NON_EMPTY, no_effect=True),
    ConfigDef("remote.log.storage.manager.class.path", STRING, None, "Where that class is found.", no_effect=True),
    ConfigDef("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", "Configs with this prefix are its own.",
              NON_EMPTY),
    ConfigDef("remote.log.metadata.manager.class.name", STRING,
              "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
              "A class of the JVM; here it is always this one's topic and format.", NON_EMPTY, no_effect=True),
    ConfigDef("remote.log.metadata.manager.class.path", STRING, None, "Where that class is found.", no_effect=True),
    ConfigDef("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.",
              "Configs with this prefix are its own.", NON_EMPTY),
    ConfigDef("remote.log.metadata.manager.listener.name", STRING, None,
              "A client of the JVM's; here it is the listener of brokers.", NON_EMPTY, no_effect=True),
    ConfigDef("remote.log.metadata.custom.metadata.max.bytes", INT, 128,
              "What a class of the JVM may note about a segment; here four bytes.", at_least(0), importance=LOW,
              no_effect=True),
)  # fmt: skip

WORK: Final = (
    ConfigDef("remote.log.index.file.cache.total.size.bytes", LONG, 1 << 30,
              "A cache on disk; here indexes are in memory, see ottla.remote.cache.bytes.", at_least(1), CLUSTER, LOW,
              no_effect=True),
    ConfigDef("remote.log.index.file.cache.ttl.ms", LONG, 15 * MINUTE, "Of that cache.",
              at_least(-1), importance=LOW, internal=True, no_effect=True),
    ConfigDef("remote.log.manager.thread.pool.size", INT, 2, "Threads; deprecated.", at_least(1), no_effect=True),
    ConfigDef("remote.log.manager.copier.thread.pool.size", INT, 10, "Segments copied at a time.", at_least(1),
              CLUSTER),
    ConfigDef("remote.log.manager.expiration.thread.pool.size", INT, 10, "Segments deleted at a time.", at_least(1),
              CLUSTER),
    ConfigDef("remote.log.manager.follower.thread.pool.size", INT, 2, "Threads; here it needs none.", at_least(1),
              CLUSTER, no_effect=True),
    ConfigDef("remote.log.manager.task.interval.ms", LONG, 30_000, "How often it is looked for segments to copy.",
              at_least(1), importance=LOW),
    ConfigDef("remote.log.manager.task.retry.backoff.ms", LONG, 500, "The pause before another attempt.", at_least(1),
              importance=LOW, internal=True),
    ConfigDef("remote.log.manager.task.retry.backoff.max.ms", LONG, 30_000, "The limit up to which that pause grows.",
              at_least(1), importance=LOW, internal=True),
    ConfigDef("remote.log.manager.task.retry.jitter", DOUBLE, 0.2, "What is added to that pause at random.",
              between(0, 0.5), importance=LOW, internal=True),
    ConfigDef("remote.log.reader.threads", INT, 10, "Remote reads at a time.", at_least(1), CLUSTER),
    ConfigDef("remote.log.reader.max.pending.tasks", INT, 100, "Remote reads that may wait.", at_least(1)),
    ConfigDef("remote.log.manager.copy.max.bytes.per.second", LONG, MAX_LONG, "What may be copied in a second.",
              at_least(1), CLUSTER),
    ConfigDef("remote.log.manager.copy.quota.window.num", INT, 11, "Windows kept for that limit.", at_least(1)),
    ConfigDef("remote.log.manager.copy.quota.window.size.seconds", INT, 1, "The length of such a window.",
              at_least(1)),
    ConfigDef("remote.log.manager.fetch.max.bytes.per.second", LONG, MAX_LONG, "What may be read in a second.",
              at_least(1), CLUSTER),
    ConfigDef("remote.log.manager.fetch.quota.window.num", INT, 11, "Windows kept for that limit.", at_least(1)),
    ConfigDef("remote.log.manager.fetch.quota.window.size.seconds", INT, 1, "The length of such a window.",
              at_least(1)),
    ConfigDef("remote.fetch.max.wait.ms", INT, 500, "How long a fetch waits for a remote read.", at_least(1), CLUSTER),
    ConfigDef("remote.list.offsets.request.timeout.ms", LONG, 30_000, "How long a search by time may take there.",
              at_least(1), CLUSTER),
)  # fmt: skip

ROWS: Final = PLUGINS + WORK
