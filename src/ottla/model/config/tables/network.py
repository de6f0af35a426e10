"""Broker configs: who the node is, its listeners, connections and requests."""

from typing import Final

from ottla.model.config.definition import REQUIRED, ConfigDef, ConfigType, Importance, Update
from ottla.model.config.validators import ENTRIES, HOST_COUNTS, at_least, list_of, one_of

BOOLEAN, INT, LIST, LONG, STRING = (
    ConfigType.BOOLEAN,
    ConfigType.INT,
    ConfigType.LIST,
    ConfigType.LONG,
    ConfigType.STRING,
)
HIGH, LOW = Importance.HIGH, Importance.LOW
CLUSTER, PER_BROKER = Update.CLUSTER_WIDE, Update.PER_BROKER
MAX_INT: Final = (1 << 31) - 1

IDENTITY: Final = (
    ConfigDef(
        "process.roles", LIST, REQUIRED, "What this node is: broker, controller, or both.",
        list_of("broker", "controller", empty=False), importance=HIGH,
    ),
    ConfigDef(
        "node.id", INT, REQUIRED, "The number of this node, unlike that of any other in the cluster.",
        at_least(0), importance=HIGH,
    ),
    ConfigDef("broker.id", INT, -1, "An older name for node.id; if both are given they must agree.", importance=HIGH),
    ConfigDef(
        "broker.rack", STRING, None,
        "Where this node stands (a rack, a zone). Replicas are spread over racks; consumers may read nearby.",
    ),
    ConfigDef(
        "early.start.listeners", LIST, None,
        "Listeners that open before the authorizer is ready. By default those of the controller.",
        ENTRIES, importance=HIGH,
    ),
)  # fmt: skip

LISTENERS: Final = (
    ConfigDef(
        "listeners", LIST, ("PLAINTEXT://:9092",),
        "Where this node listens: NAME://host:port, separated by commas. No host means every interface.",
        ENTRIES, PER_BROKER, HIGH,
    ),
    ConfigDef(
        "advertised.listeners", LIST, None,
        "The addresses that clients are told to use, when they differ from listeners (containers, NAT, other hosts).",
        ENTRIES, importance=HIGH,
    ),
    ConfigDef(
        "listener.security.protocol.map", STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which security protocol each listener name speaks: NAME:PROTOCOL, separated by commas.",
        update=PER_BROKER, importance=LOW,
    ),
    ConfigDef("inter.broker.listener.name", STRING, None, "The listener over which nodes talk to each other."),
    ConfigDef(
        "security.inter.broker.protocol", STRING, "PLAINTEXT",
        "Picks the listener between nodes by its protocol; use this or inter.broker.listener.name, not both.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    ConfigDef(
        "controller.listener.names", LIST, REQUIRED,
        "The listeners that belong to the controller. A node without that role uses the first to reach one.",
        ENTRIES, importance=HIGH,
    ),
)  # fmt: skip

CONNECTIONS: Final = (
    ConfigDef(
        "socket.send.buffer.bytes", INT, 100 << 10, "SO_SNDBUF of connections; -1 leaves it to the system.",
        importance=HIGH,
    ),
    ConfigDef(
        "socket.receive.buffer.bytes", INT, 100 << 10, "SO_RCVBUF of connections; -1 leaves it to the system.",
        importance=HIGH,
    ),
    ConfigDef(
        "socket.request.max.bytes", INT, 100 << 20, "A request larger than this closes its connection.",
        at_least(1), importance=HIGH,
    ),
    ConfigDef("socket.listen.backlog.size", INT, 50, "How many connections may wait to be accepted.", at_least(1)),
    ConfigDef(
        "socket.connection.setup.timeout.ms", LONG, 10_000, "How long the first attempt to connect to a node may take.",
    ),
    ConfigDef(
        "socket.connection.setup.timeout.max.ms", LONG, 30_000,
        "The limit up to which that time grows when attempts fail one after the other.",
    ),
    ConfigDef(
        "max.connections.per.ip", INT, MAX_INT, "Connections allowed from one address.", at_least(0), CLUSTER,
    ),
    ConfigDef(
        "max.connections.per.ip.overrides", STRING, "",
        "Other limits for some addresses: host:count, separated by commas.", HOST_COUNTS, CLUSTER,
    ),
    ConfigDef(
        "max.connections", INT, MAX_INT,
        "Connections allowed in all. Beyond it new ones wait, but on the listener between nodes the longest idle "
        "one of another listener is closed instead.",
        at_least(0), CLUSTER,
    ),
    ConfigDef(
        "max.connection.creation.rate", INT, MAX_INT, "New connections accepted in a second.", at_least(0), CLUSTER,
    ),
    ConfigDef(
        "connections.max.idle.ms", LONG, 600_000, "A connection without a request for this long is closed; -1 never.",
    ),
    ConfigDef(
        "connection.failed.authentication.delay.ms", INT, 100,
        "How long a failed login is kept waiting before its connection closes.", at_least(0), importance=LOW,
    ),
    ConfigDef(
        "queued.max.requests", INT, 500, "Requests read but not yet answered, beyond which no more are read.",
        at_least(1), importance=HIGH,
    ),
    ConfigDef(
        "queued.max.request.bytes", LONG, -1,
        "Bytes of requests read but not yet answered, beyond which no more are read; -1 for no limit of that kind.",
    ),
    ConfigDef("request.timeout.ms", INT, 30_000, "How long a request to another node may take.", importance=HIGH),
)  # fmt: skip

REQUESTS: Final = (
    ConfigDef(
        "message.max.bytes", INT, (1 << 20) + 12,
        "The largest batch of records taken, counted as sent (compressed); topics may set max.message.bytes.",
        at_least(0), CLUSTER, HIGH,
    ),
    ConfigDef("fetch.max.bytes", INT, 55 << 20, "The most that one fetch is answered with.", at_least(1024)),
    ConfigDef(
        "max.incremental.fetch.session.cache.slots", INT, 1000, "How many fetch sessions (KIP-227) are remembered.",
        at_least(0),
    ),
    ConfigDef(
        "max.request.partition.size.limit", INT, 2000,
        "How many partitions one answer of DescribeTopicPartitions may carry.", at_least(1),
    ),
    ConfigDef("delete.topic.enable", BOOLEAN, True, "Whether topics can be deleted.", importance=HIGH),
    ConfigDef(
        "auto.create.topics.enable", BOOLEAN, True, "Whether asking for an unknown topic's metadata creates it.",
        importance=HIGH,
    ),
    ConfigDef(
        "controlled.shutdown.enable", BOOLEAN, True, "Whether a stopping node hands over its leaderships first.",
    ),
    ConfigDef(
        "unstable.api.versions.enable", BOOLEAN, False, "Offers API versions that are still being worked on.",
        importance=HIGH, internal=True,
    ),
    ConfigDef(
        "unstable.feature.versions.enable", BOOLEAN, False, "Offers feature levels that are still being worked on.",
        importance=HIGH, internal=True,
    ),
)  # fmt: skip

THREADS: Final = (
    ConfigDef("num.network.threads", INT, 3, "One event loop serves the network here.", at_least(1), CLUSTER, HIGH,
              no_effect=True),
    ConfigDef("num.io.threads", INT, 8, "One event loop runs the requests here.", at_least(1), CLUSTER, HIGH,
              no_effect=True),
    ConfigDef("background.threads", INT, 10, "Work beside the loop has its own pool here.", at_least(1), CLUSTER, HIGH,
              no_effect=True),
    ConfigDef("num.recovery.threads.per.data.dir", INT, 2, "Logs are recovered one after the other here.", at_least(1),
              CLUSTER, HIGH, no_effect=True),
    ConfigDef("num.replica.alter.log.dirs.threads", INT, None, "Moves between disks are tasks of the loop here.",
              importance=HIGH, no_effect=True),
)  # fmt: skip

ROWS: Final = IDENTITY + LISTENERS + CONNECTIONS + REQUESTS + THREADS
