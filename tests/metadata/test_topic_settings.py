"""Which value of a topic's config the controller goes by: Kafka's order, and Kafka's way to read it."""

from dataclasses import replace

import pytest
from tests.metadata import given

from ottla.metadata.controller.topic_settings import TopicSettings
from ottla.metadata.image import MetadataImage
from ottla.metadata.records.config_record import ConfigRecord

UNCLEAN = "unclean.leader.election.enable"
BROKER, TOPIC = 4, 2


def with_configs(*configs: tuple[int, str, str]) -> MetadataImage:
    records = (
        ConfigRecord(resource_type=kind, resource_name=name, name=UNCLEAN, value=value) for kind, name, value in configs
    )
    return given.after(given.cluster(1, 2), *records)


@pytest.mark.parametrize(
    ("configs", "may_be_unclean"),
    [
        ([], False),
        ([(BROKER, "", "true")], True),
        ([(BROKER, "1", "true")], True),
        ([(BROKER, "2", "true")], False),  # of a broker that is not the controller
        ([(BROKER, "", "true"), (BROKER, "1", "false")], False),
        ([(BROKER, "", "false"), (BROKER, "1", "true")], True),
        ([(BROKER, "1", "true"), (TOPIC, "t", "false")], False),
        ([(BROKER, "1", "false"), (TOPIC, "t", "true")], True),
        ([(TOPIC, "t", "TRUE")], True),
    ],
)
def test_the_topic_comes_before_the_node_and_the_node_before_all(
    configs: list[tuple[int, str, str]], may_be_unclean: bool
) -> None:
    of_topics = TopicSettings(with_configs(*configs), replace(given.settings(), node_id=1))

    assert of_topics.may_be_unclean("t") is may_be_unclean
