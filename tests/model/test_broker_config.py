"""A node's configs: from a file, checked together, layered, and described as Apache Kafka describes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.model.config import (
    BrokerConfig,
    ConfigError,
    ConfigSource,
    DescribedConfig,
    Layers,
    broker_config,
    describe_broker,
    describe_cluster_defaults,
    describe_topic,
    load_properties,
    log_config,
    standalone,
)

DATA = Path(__file__).parent / "data"
NODE = standalone("/data", 9092)
KAFKA: list[dict[str, Any]] = [
    json.loads(line) for line in (DATA / "kafka-4.3-described.jsonl").read_text().splitlines()
]
# With eligible leader replicas, Kafka's controller sets this one for the whole cluster by itself.
DYNAMIC_DEFAULT = {"min.insync.replicas": "1"}


def as_in_the_golden_run() -> BrokerConfig:
    return broker_config(Layers(load_properties(DATA / "server.properties").values, DYNAMIC_DEFAULT, {}))


def comparable(config: DescribedConfig) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "source": config.source.name,
        "sensitive": config.is_sensitive,
        "read_only": config.read_only,
        "type": config.type.name,
        "synonyms": [[each.name, each.value, each.source.name] for each in config.synonyms],
    }


def kafkas(resource: str, names: set[str]) -> dict[str, dict[str, Any]]:
    rows = [row for row in KAFKA if row["resource"] == resource and row["name"] in names]
    return {row["name"]: {key: row[key] for key in row if key != "resource"} for row in rows}


def test_a_topic_is_described_as_kafka_does() -> None:
    ours = describe_topic(as_in_the_golden_run(), {"retention.ms": "5000", "cleanup.policy": "compact,delete"})
    assert {row["name"] for row in KAFKA if row["resource"] == "TOPIC"} == {each.name for each in ours}
    assert {each.name: comparable(each) for each in ours} == kafkas("TOPIC", {each.name for each in ours})


def test_a_broker_is_described_as_kafka_does() -> None:
    ours = describe_broker(as_in_the_golden_run())
    assert {each.name: comparable(each) for each in ours} == kafkas("BROKER", {each.name for each in ours})


def test_only_the_names_asked_for_are_described() -> None:
    broker = broker_config(NODE)
    assert [each.name for each in describe_topic(broker, {}, ["flush.ms", "no.such"])] == ["flush.ms"]
    assert [each.name for each in describe_broker(broker, ["node.id"])] == ["node.id"]


def test_an_unknown_config_is_shown_without_its_value_and_listed_for_a_warning() -> None:
    broker = broker_config(NODE | {"my.pasword": "hunter2"})
    (entry,) = describe_broker(broker, ["my.pasword"])
    assert (entry.value, entry.is_sensitive, entry.synonyms[0].value) == (None, True, None)
    assert broker.unknown == ("my.pasword",)


def test_a_dynamic_value_wins_over_a_static_one_under_another_name() -> None:
    broker = broker_config(NODE | {"log.retention.hours": "1"})
    broker = broker.with_dynamic(cluster={"log.retention.ms": "5"}, broker={})
    assert log_config(broker).retention_ms == 5
    broker = broker.with_dynamic(cluster={"log.retention.ms": "5"}, broker={"log.retention.ms": "6"})
    assert log_config(broker).retention_ms == 6
    (entry,) = describe_topic(broker, {}, ["retention.ms"])
    assert [each.source for each in entry.synonyms] == [
        ConfigSource.DYNAMIC_BROKER_CONFIG,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        ConfigSource.STATIC_BROKER_CONFIG,
        ConfigSource.DEFAULT_CONFIG,
    ]
    (default,) = describe_cluster_defaults(broker)
    assert (default.name, default.value, default.source) == (
        "log.retention.ms",
        "5",
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    )


def test_attributes_are_typed_values() -> None:
    broker = broker_config(NODE | {"num.partitions": "3", "auto.create.topics.enable": "FALSE"})
    assert (broker.num_partitions, broker.auto_create_topics_enable, broker.node_id) == (3, False, 1)
    assert (broker.log_dirs, broker.metadata_log_dir) == (("/data",), "/data")
    assert broker.get_int("offsets.topic.num.partitions") == 50
    assert broker.is_broker and broker.is_controller


def test_several_log_dirs_and_an_own_one_for_metadata() -> None:
    broker = broker_config(NODE | {"log.dirs": "/a, /b", "metadata.log.dir": "/m"})
    assert (broker.log_dirs, broker.metadata_log_dir) == (("/a", "/b"), "/m")


def test_log_dir_counts_only_without_log_dirs() -> None:
    without = {name: value for name, value in NODE.items() if name != "log.dirs"}
    assert broker_config(without | {"log.dir": "/one"}).log_dirs == ("/one",)
    assert broker_config(NODE | {"log.dir": "/one"}).log_dirs == ("/data",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num.partitions": "0"}, "Invalid value 0 for configuration num.partitions: must be at least 1"),
        ({"num.partitions": "many"}, "Invalid value many for configuration num.partitions: not a number of type INT"),
        ({"broker.id": "9"}, r"broker\.id: must be the same as node\.id \(1\)"),
        ({"process.roles": "brokr"}, "process.roles: each entry must be one of broker, controller"),
        ({"process.roles": "broker"}, "a broker must be told where the controllers are"),
        ({"controller.quorum.voters": "2@h:1"}, "node.id 1 must be among the voters"),
        ({"controller.quorum.voters": "1-h:1"}, "'1-h:1' is not id@host:port"),
        ({"log.retention.ms": "0"}, "log.retention.ms: must be at least 1, or -1"),
        ({"log.roll.ms": "0"}, "log.roll.ms: must be at least 1"),
        ({"queued.max.request.bytes": "5"}, "must be at least socket.request.max.bytes"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip.overrides"),
        ({"replica.fetch.wait.max.ms": "99999"}, "must not be longer than replica.socket.timeout.ms"),
        ({"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"}, "must not be above"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "classic cannot be left out"),
        ({"log.dirs": ""}, "log.dirs: must not be empty"),
        ({"num.partitions": "many"}, r"not a number of type INT \(a 32-bit whole number, at least 1\)"),
        ({"log.cleaner.min.cleanable.ratio": "half"}, r"not a number of type DOUBLE \(a number, between 0 and 1\)"),
        (
            {"log.preallocate": "yes"},
            "Invalid value yes for configuration log.preallocate: must be either true or false",
        ),
        ({"log.cleaner.threads": "0"}, "log.cleaner.threads: must be at least 1"),
        ({"log.cleaner.dedupe.buffer.size": "1048576"}, "must be more than 1 MiB for each cleaner thread"),
        ({"cordoned.log.dirs": "/other"}, "Invalid value /other for configuration cordoned.log.dirs"),
        ({"cordoned.log.dirs": "*,/data"}, "must stand alone"),
        ({"max.connections.per.ip.overrides": "host"}, "'host' is not host:count"),
        (
            {"authorizer.class.name": "x.Y"},
            "Invalid value x.Y for configuration authorizer.class.name: there are no ACLs",
        ),
        ({"create.topic.policy.class.name": "x.Y"}, "there is no JVM here to load a class"),
    ],
)
def test_a_wrong_value_is_refused_with_name_value_and_what_is_allowed(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        broker_config(NODE | given)


def test_what_has_no_default_must_be_set() -> None:
    with pytest.raises(ConfigError, match=r"process\.roles: it must be set"):
        broker_config({"node.id": "1"})
    with pytest.raises(ConfigError, match=r"node\.id: it must be set"):
        broker_config({"process.roles": "broker,controller"})


def test_a_wrong_value_is_told_with_its_place() -> None:
    where = {"num.partitions": "server.properties, line 7", "broker.id": "server.properties, line 9"}
    only_broker_id = {name: value for name, value in NODE.items() if name != "node.id"}

    with pytest.raises(ConfigError, match=r"^server\.properties, line 7: Invalid value x for configuration num"):
        broker_config(NODE | {"num.partitions": "x"}, where)
    with pytest.raises(ConfigError, match=r"^server\.properties, line 9: Invalid value -1 for configuration"):
        broker_config(only_broker_id | {"broker.id": "-1"}, where)


def test_node_id_and_broker_id_stand_for_each_other() -> None:
    without = {name: value for name, value in NODE.items() if name != "node.id"}
    assert broker_config(without | {"broker.id": "4"}).node_id == 4


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            [
                "node.id=1",
                "num.partitions=many",
                "log.dirs=/a",
                "process.roles=broker,controller",
                "log.retention.ms=x",
            ],
            ["line 2: Invalid value many for configuration num.partitions", "line 5: Invalid value x for"],
        ),
        (
            ["log.retention.hours=0", "node.id=1", "process.roles=broker,controller", "max.connections.per.ip=0"],
            ["line 1: Invalid value 0 for configuration log.retention.hours", "line 4: Invalid value 0 for"],
        ),
        (
            ["a=\\u12", "node.id=1", "b=\\uxyz9"],
            ["line 1: \\u12 is not four", "line 3: \\uxyz9 is not four"],
        ),
        (
            ["node.id=1", "process.roles=broker,controller", "listeners=PLAINTEXT://:1,FOO", "num.partitions=x"],
            ["line 3: Invalid value PLAINTEXT://:1,FOO for", "line 4: Invalid value x for configuration num.part"],
        ),
        (
            ["node.id=1", "process.roles=broker,controller", "listeners=FOO", "log.retention.hours=0"],
            ["line 3: Invalid value FOO for configuration listeners", "line 4: Invalid value 0 for"],
        ),
        (
            ["node.id=1", "process.roles=broker,controller", "controller.quorum.voters=me", "num.partitions=x"],
            ["line 3: Invalid value me for configuration controller.quorum.voters", "line 4: Invalid value x for"],
        ),
        (
            ["process.roles=broker,controller", "node.id=one", "num.partitions=x"],
            ["line 2: Invalid value one for configuration node.id", "line 3: Invalid value x for"],
        ),
        (
            ["process.roles=broker,controller", "broker.id=one", "num.partitions=x"],
            ["line 2: Invalid value one for configuration broker.id", "line 3: Invalid value x for"],
        ),
    ],
    ids=[
        "values",
        "values that do not go together",
        "lines that cannot be read",
        "a listener and a value",
        "a listener and values that do not go together",
        "voters and addresses",
        "one id by either name",
        "one id by its old name",
    ],
)
def test_all_that_is_wrong_with_a_file_is_told_at_once(tmp_path: Path, lines: list[str], told: list[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text("\n".join(lines))

    def read() -> None:
        loaded = load_properties(file)
        broker_config(loaded.values, loaded.where)

    with pytest.raises(ConfigError) as caught:
        read()

    head, *rest = str(caught.value).splitlines()
    assert head == "2 configs cannot be used:"
    assert [text.removeprefix(f"  {file}, ")[: len(part)] for text, part in zip(rest, told, strict=True)] == told


def test_a_client_is_told_the_first_that_is_wrong() -> None:
    with pytest.raises(ConfigError, match=r"^Invalid value \S+ for configuration [a-z.]+: [^\n]+$"):
        broker_config(NODE | {"num.partitions": "x", "log.retention.ms": "y"})


def test_a_wrong_value_in_a_file_is_refused_with_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# mine\nprocess.roles=broker,controller\nnode.id=1\n\nnum.partitions = \\\n   none\n")
    loaded = load_properties(file)
    with pytest.raises(ConfigError, match=r"server.properties, line 5: Invalid value none for configuration num.part"):
        broker_config(loaded.values, loaded.where)


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError, match="cannot read /no/such/file: No such file"):
        load_properties("/no/such/file")


def test_a_secret_is_not_printed_in_an_error() -> None:
    from ottla.model.config import ConfigDef, ConfigType
    from ottla.model.config.validators import NON_EMPTY

    secret = ConfigDef("a.secret", ConfigType.PASSWORD, None, "A secret.", NON_EMPTY._replace(check=lambda _: "no"))
    with pytest.raises(ConfigError) as error:
        secret.parse("hunter2")
    assert "hunter2" not in str(error.value)
