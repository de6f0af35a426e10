"""What a pipeline asks of the cluster besides records: whether topics are there, and that they be made."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from ottla.model.errors import ErrorCode, KafkaError, OttlaError
from ottla.model.near_miss import did_you_mean
from ottla.spark import loop_thread
from ottla.spark.client_settings import client_settings
from ottla.spark.cluster import Cluster, request_of
from ottla.spark.reading import cluster_of

_CREATE_TOPICS, _DESCRIBE_CONFIGS = 19, 32
_TOPIC: Final = 2  # a kind of what has configs
_WITHIN_MS: Final = 5000


def _cluster(bootstrap: str) -> Cluster:
    given = {"kafka.bootstrap.servers": bootstrap, "kafka.default.api.timeout.ms": str(_WITHIN_MS)}
    return cluster_of(client_settings(given))


def missing_topic(bootstrap: str, name: str) -> str | None:
    """What to tell of a topic that is not there."""
    cluster = _cluster(bootstrap)
    if loop_thread.wait_for(cluster.topics([name])):
        return None
    hint = did_you_mean(name, loop_thread.wait_for(cluster.topics()))
    return f"topic {name} is not there{hint or f'; `ottla topic create {name}` makes it'}"


def partitions(bootstrap: str, name: str) -> int:
    """0 if the topic is not there."""
    found = loop_thread.wait_for(_cluster(bootstrap).topics([name]))
    return len(found[name].leaders) if name in found else 0


def topic_config(bootstrap: str, topic: str, name: str) -> str:
    resource = {"resource_type": _TOPIC, "resource_name": topic, "configuration_keys": [name]}
    request = request_of(_DESCRIBE_CONFIGS, 4, resources=[resource])
    cluster = _cluster(bootstrap)

    async def ask() -> str:
        (told,) = (await cluster.ask_anyone(request)).results
        if told.error_code is not ErrorCode.none:
            raise KafkaError(told.error_code, told.error_message)
        return next((one.value or "" for one in told.configs if one.name == name), "")

    return loop_thread.wait_for(cluster.patiently(f"cannot ask for {name} of topic {topic}", ask))


def create_topic(bootstrap: str, name: str, count: int = -1, **configs: str) -> bool:
    """With as many partitions as said, or as the cluster makes by default; False if it is there already."""
    given = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": count, "replication_factor": -1, "assignments": [], "configs": given}
    request = request_of(_CREATE_TOPICS, 5, topics=[topic], timeout=timedelta(milliseconds=_WITHIN_MS))
    cluster = _cluster(bootstrap)

    async def ask() -> bool:
        (told,) = (await cluster.ask_anyone(request)).topics
        if told.error_code is ErrorCode.topic_already_exists:
            return False
        if told.error_code is not ErrorCode.none:
            raise KafkaError(told.error_code, told.error_message)
        return True

    try:
        return loop_thread.wait_for(cluster.patiently(f"cannot create topic {name}", ask))
    except OttlaError:
        if partitions(bootstrap, name):
            return False
        raise
