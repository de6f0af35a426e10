"""Three nodes as a client sees them: whichever it asks, it gets the same."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tests.broker.apis.asking import INIT_PRODUCER_ID, ask
from tests.cluster.clients import a_name, admin, consume_all, create_topic, leaders, produce
from tests.waiting import PATIENCE_S, until

from ottla.testing.process_cluster import ProcessCluster


@pytest.mark.parametrize("node", [1, 2, 3])
def test_every_node_knows_all_of_them(cluster: ProcessCluster, node: int) -> None:
    found = admin(cluster.address(node)).list_topics(timeout=30)
    assert {broker.id: broker.port for broker in found.brokers.values()} == cluster.ports
    assert found.controller_id in cluster.ids


@pytest.mark.parametrize("node", [1, 2, 3])
def test_topics_are_made_changed_and_deleted_through_any_node(cluster: ProcessCluster, node: int) -> None:
    name, through = a_name("topic"), admin(cluster.address(node))
    through.create_topics([NewTopic(name, 2, 3, config={"retention.ms": "777000"})])[name].result(PATIENCE_S)
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        through.create_topics([NewTopic(name, 2, 3)])[name].result(PATIENCE_S)
    through.create_partitions([NewPartitions(name, 4)])[name].result(PATIENCE_S)
    for other in cluster.ids:
        until(partial(_has_partitions, cluster, other, name, 4))
    (config,) = through.describe_configs([ConfigResource("topic", name)]).values()
    assert config.result(PATIENCE_S)["retention.ms"].value == "777000"
    through.delete_topics([name])[name].result(PATIENCE_S)
    for other in cluster.ids:
        until(partial(_has_no_topic, cluster, other, name))


def _has_partitions(cluster: ProcessCluster, node: int, topic: str, count: int) -> bool:
    return len(admin(cluster.address(node)).list_topics(topic, timeout=30).topics[topic].partitions) == count


def _has_no_topic(cluster: ProcessCluster, node: int, topic: str) -> bool:
    return topic not in admin(cluster.address(node)).list_topics(timeout=30).topics


@pytest.mark.parametrize("node", [1, 2, 3])
def test_what_is_refused_is_refused_in_the_same_words_through_any_node(cluster: ProcessCluster, node: int) -> None:
    name, through = a_name("topic"), admin(cluster.address(node))
    with pytest.raises(KafkaException) as refused:
        through.create_topics([NewTopic(name, 1, 4)])[name].result(PATIENCE_S)
    assert refused.value.args[0].name() == "INVALID_REPLICATION_FACTOR"
    assert "only 3 broker(s) are registered" in refused.value.args[0].str()


def test_leaders_are_spread_and_records_go_through_all_of_them(cluster: ProcessCluster) -> None:
    topic = create_topic(cluster, partitions=6)
    assert sorted(leaders(cluster, topic)) == [1, 1, 2, 2, 3, 3]
    values = [b"%d" % number for number in range(3000)]
    produce(cluster.address(2), topic, values)
    assert sorted(consume_all(cluster.address(3), topic, len(values))) == sorted(values)


def test_producer_ids_differ_whichever_node_gives_them(cluster: ProcessCluster) -> None:
    given = [
        ask(
            cluster.address(node), INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=timedelta(0),
            producer_id=-1, producer_epoch=-1,
        ).producer_id
        for node in cluster.ids * 3
    ]  # fmt: skip
    assert len(set(given)) == len(given)
