"""Broker configs: the quorum, the metadata log, replication, metrics and quotas."""

from typing import Final

from ottla.model.config.definition import ConfigDef, ConfigType, Importance, Update
from ottla.model.config.tables.topic import DAY, HOUR, MAX_LONG, MINUTE
from ottla.model.config.validators import ENTRIES, at_least

BOOLEAN, CLASS, INT, LIST, LONG, STRING = (
    ConfigType.BOOLEAN,
    ConfigType.CLASS,
    ConfigType.INT,
    ConfigType.LIST,
    ConfigType.LONG,
    ConfigType.STRING,
)
HIGH, LOW = Importance.HIGH, Importance.LOW
CLUSTER = Update.CLUSTER_WIDE

QUORUM: Final = (
    ConfigDef("controller.quorum.voters", LIST, (),
              "The voters of a quorum that never changes: id@host:port, separated by commas.",
              ENTRIES, importance=HIGH),
    ConfigDef("controller.quorum.bootstrap.servers", LIST, (), "Where to ask for the quorum: host:port, ...",
              ENTRIES, importance=HIGH),
    ConfigDef("controller.quorum.election.timeout.ms", INT, 1000, "How long to wait for a leader before an election.",
              at_least(0), importance=HIGH),
    ConfigDef("controller.quorum.fetch.timeout.ms", INT, 2000,
              "How long without a fetch from a majority (as leader) or an answer (as follower) until another election.",
              at_least(0), importance=HIGH),
    ConfigDef("controller.quorum.election.backoff.max.ms", INT, 1000, "The longest wait after a lost election.",
              at_least(0), importance=HIGH),
    ConfigDef("controller.quorum.append.linger.ms", INT, 25, "How long the leader gathers writes before it syncs them.",
              at_least(0)),
    ConfigDef("controller.quorum.request.timeout.ms", INT, 2000, "How long a request within the quorum may take.",
              at_least(0)),
    ConfigDef("controller.quorum.retry.backoff.ms", INT, 20, "The pause before such a request is tried again.",
              at_least(0), importance=LOW),
    ConfigDef("controller.quorum.auto.join.enable", BOOLEAN, False,
              "Whether a new controller adds itself to the voters.", importance=LOW),
    ConfigDef("controller.quorum.fetch.snapshot.max.bytes", INT, 1 << 20, "The largest piece of a snapshot fetched.",
              at_least(1), importance=LOW),
    ConfigDef("controller.quorum.fetch.max.bytes", INT, 1 << 20, "The most fetched from the leader at once.",
              at_least(1), importance=LOW),
)  # fmt: skip

METADATA: Final = (
    ConfigDef("metadata.log.dir", STRING, None, "Where the metadata log lies. By default in the first of log.dirs.",
              importance=HIGH),
    ConfigDef("metadata.log.segment.bytes", INT, 1 << 30, "The size at which its segments are closed.",
              at_least(8 << 20), importance=HIGH),
    ConfigDef("metadata.log.segment.ms", LONG, 7 * DAY, "The age at which its segments are closed.", importance=HIGH),
    ConfigDef("metadata.max.retention.bytes", LONG, 100 << 20,
              "Log and snapshots larger than this lose their oldest, if a newer snapshot covers them.",
              importance=HIGH),
    ConfigDef("metadata.max.retention.ms", LONG, 7 * DAY, "How long log and snapshots are kept.", importance=HIGH),
    ConfigDef("metadata.log.max.record.bytes.between.snapshots", LONG, 20 << 20,
              "A snapshot is made after so many bytes of new records.", at_least(1), importance=HIGH),
    ConfigDef("metadata.log.max.snapshot.interval.ms", LONG, HOUR,
              "A snapshot is made after this long, if anything changed; 0 leaves it to the bytes.", at_least(0),
              importance=HIGH),
    ConfigDef("metadata.max.idle.interval.ms", INT, 500,
              "How often an idle controller writes a record so that progress can be seen; 0 never.", at_least(0),
              importance=LOW),
    ConfigDef("internal.metadata.log.segment.bytes", INT, None, "For tests: smaller segments than allowed.",
              importance=LOW, internal=True),
    ConfigDef("internal.metadata.max.batch.size.in.bytes", INT, 8 << 20, "The largest batch of metadata records.",
              importance=LOW, internal=True),
    ConfigDef("internal.metadata.delete.delay.millis", LONG, MINUTE, "How long deleted metadata files stay.",
              importance=LOW, internal=True),
    ConfigDef("initial.broker.registration.timeout.ms", INT, 60_000,
              "How long a starting broker tries to register before it gives up."),
    ConfigDef("broker.heartbeat.interval.ms", INT, 2000, "How often a broker tells the controller that it lives."),
    ConfigDef("broker.session.timeout.ms", INT, 9000, "A broker silent for this long is fenced."),
    ConfigDef("controller.performance.sample.period.ms", LONG, 60_000, "How often the controller's speed is logged.",
              at_least(100), internal=True),
    ConfigDef("controller.performance.always.log.threshold.ms", LONG, 2000,
              "A controller event slower than this is logged at once.", at_least(0), internal=True),
    ConfigDef("server.max.startup.time.ms", LONG, MAX_LONG, "The longest a start may take.", at_least(0),
              internal=True),
)  # fmt: skip

REPLICATION: Final = (
    ConfigDef("min.insync.replicas", INT, 1, "Replicas that must be in sync for acks=all (min.insync.replicas).",
              at_least(1), CLUSTER, HIGH),
    ConfigDef("unclean.leader.election.enable", BOOLEAN, False,
              "Whether a replica out of sync may lead when none is left, losing records.", update=CLUSTER,
              importance=HIGH),
    ConfigDef("unclean.leader.election.interval.ms", LONG, 5 * MINUTE, "How often it is looked for such partitions.",
              at_least(1), internal=True),
    ConfigDef("auto.leader.rebalance.enable", BOOLEAN, True, "Whether leaderships go back to preferred replicas.",
              importance=HIGH),
    ConfigDef("leader.imbalance.check.interval.seconds", LONG, 300, "How often that is looked at.", at_least(1),
              importance=HIGH),
    ConfigDef("replica.lag.time.max.ms", LONG, 30_000, "A follower that is behind for this long leaves the ISR.",
              importance=HIGH),
    ConfigDef("replica.socket.timeout.ms", INT, 30_000, "How long a follower's request may take.", importance=HIGH),
    ConfigDef("replica.socket.receive.buffer.bytes", INT, 64 << 10, "SO_RCVBUF of a follower's connections.",
              importance=HIGH),
    ConfigDef("replica.fetch.max.bytes", INT, 1 << 20, "What a follower asks of one partition at once.", at_least(0)),
    ConfigDef("replica.fetch.wait.max.ms", INT, 500, "How long a leader holds a follower's fetch open.",
              importance=HIGH),
    ConfigDef("replica.fetch.backoff.ms", INT, 1000, "The pause of a partition's follower after an error.",
              at_least(0)),
    ConfigDef("replica.fetch.min.bytes", INT, 1, "What a leader waits to have before it answers a follower.",
              importance=HIGH),
    ConfigDef("replica.fetch.response.max.bytes", INT, 10 << 20, "The most a follower takes in one answer.",
              at_least(0)),
    ConfigDef("num.replica.fetchers", INT, 1, "Connections to each leader over which followers fetch.", at_least(1),
              CLUSTER, HIGH),
    ConfigDef("replica.high.watermark.checkpoint.interval.ms", LONG, 5000,
              "How often high watermarks are written down.", importance=HIGH),
    ConfigDef("replica.selector.class", STRING, None, "Picks the replica that a consumer reads from."),
    ConfigDef("follower.fetch.last.tiered.offset.enable", BOOLEAN, False,
              "Whether a new follower starts after what is in the remote tier.", update=CLUSTER),
    ConfigDef("controller.socket.timeout.ms", INT, 30_000, "How long a request to the controller may take."),
    ConfigDef("fetch.purgatory.purge.interval.requests", INT, 1000, "Finished waits leave at once here.",
              no_effect=True),
    ConfigDef("producer.purgatory.purge.interval.requests", INT, 1000, "Finished waits leave at once here.",
              no_effect=True),
    ConfigDef("delete.records.purgatory.purge.interval.requests", INT, 1, "Finished waits leave at once here.",
              no_effect=True),
)  # fmt: skip

METRICS_AND_QUOTAS: Final = (
    ConfigDef("metrics.num.samples", INT, 2, "Windows kept for a rate.", at_least(1), importance=LOW),
    ConfigDef("metrics.sample.window.ms", LONG, 30_000, "The length of such a window.", at_least(1), importance=LOW),
    ConfigDef("metrics.recording.level", STRING, "INFO", "How much is measured.", importance=LOW),
    ConfigDef("metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",),
              "Classes of the JVM; metrics have their own endpoint here.", ENTRIES, CLUSTER, LOW, no_effect=True),
    ConfigDef("kafka.metrics.reporters", LIST, (), "Classes of the JVM.", ENTRIES, importance=LOW, no_effect=True),
    ConfigDef("kafka.metrics.polling.interval.secs", INT, 10, "For those classes.", at_least(1), importance=LOW,
              no_effect=True),
    ConfigDef("telemetry.max.bytes", INT, 1 << 20, "The most metrics a client may push at once.", at_least(1),
              importance=LOW),
    ConfigDef("quota.window.num", INT, 11, "Windows kept for client quotas.", at_least(1), importance=LOW),
    ConfigDef("quota.window.size.seconds", INT, 1, "The length of such a window.", at_least(1), importance=LOW),
    ConfigDef("replication.quota.window.num", INT, 11, "Windows kept for the replication quota.", at_least(1),
              importance=LOW),
    ConfigDef("replication.quota.window.size.seconds", INT, 1, "The length of such a window.", at_least(1),
              importance=LOW),
    ConfigDef("alter.log.dirs.replication.quota.window.num", INT, 11, "Windows kept for moves between disks.",
              at_least(1), importance=LOW),
    ConfigDef("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, "The length of such a window.",
              at_least(1), importance=LOW),
    ConfigDef("controller.quota.window.num", INT, 11, "Windows kept for the quota of metadata changes.", at_least(1),
              importance=LOW),
    ConfigDef("controller.quota.window.size.seconds", INT, 1, "The length of such a window.", at_least(1),
              importance=LOW),
    ConfigDef("client.quota.callback.class", CLASS, None, "A class that sets client quotas.", importance=LOW),
)  # fmt: skip

PLUGINS: Final = (
    ConfigDef("config.providers", LIST, (), "Classes that resolve values kept elsewhere.", ENTRIES, CLUSTER, LOW),
    ConfigDef("authorizer.class.name", STRING, "", "What decides who may do what.", importance=LOW),
)

DYNAMIC_ONLY: Final = (
    ConfigDef("leader.replication.throttled.rate", LONG, MAX_LONG,
              "Bytes a second that followers on the list of throttled replicas may read here.", at_least(0), CLUSTER),
    ConfigDef("follower.replication.throttled.rate", LONG, MAX_LONG,
              "Bytes a second that this broker's throttled replicas may read from their leaders.", at_least(0),
              CLUSTER),
    ConfigDef("replica.alter.log.dirs.io.max.bytes.per.second", LONG, MAX_LONG,
              "Bytes a second for moves between the folders of this broker.", at_least(0), CLUSTER),
)  # fmt: skip
"""These have no place in a file: they can only be set while a node runs, and are told only if they were."""

ROWS: Final = QUORUM + METADATA + REPLICATION + METRICS_AND_QUOTAS + PLUGINS
