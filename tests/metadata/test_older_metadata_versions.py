"""A cluster whose metadata.version is older than this node: nothing is written that its other nodes could not read."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tests.metadata import given

from ottla.metadata import snapshot
from ottla.metadata.batches import batch_records, metadata_batch
from ottla.metadata.controller.features import SUPPORTED, activation_records, bootstrap_records
from ottla.metadata.controller.requests import (
    AlterPartitionReassignments,
    BrokerHeartbeat,
    CreatePartitions,
    CreateTopics,
    FeatureUpdate,
    NewPartitions,
    NewTopic,
    Reassignment,
    RegisterController,
    Request,
    UnregisterBroker,
    UpdateFeatures,
    UpgradeType,
)
from ottla.metadata.controller.result import ApiError, ControllerResult, Refused
from ottla.metadata.image import DIRECTORY_MIGRATING, EMPTY_IMAGE, MetadataImage
from ottla.metadata.records.begin_transaction_record import BeginTransactionRecord
from ottla.metadata.records.feature_level_record import FeatureLevelRecord
from ottla.model.errors import ErrorCode
from ottla.raft import snapshot_format

LEVELS = (7, 8, 13, 14, 16, 17, 22, 25, 30)
DIRECTORIES = 17
CONTROLLER = RegisterController(9, UUID(int=9), (), tuple(SUPPORTED.items()))


class Written(given.Active):
    """Every record goes through its form on disk, as the cluster's metadata.version wants it."""

    def submit(self, request: Request[Any]) -> ControllerResult[Any] | Refused:
        version = self.image.metadata_version
        result = super().submit(request)
        if isinstance(result, ControllerResult) and result.records:
            assert batch_records(metadata_batch(result.records, version, 0)) == list(result.records)
        return result


def a_cluster(level: int) -> Written:
    active = Written(given.formatted(level))
    for broker_id in (1, 2, 3):
        epoch = active.reply(given.registration(broker_id))
        active.reply(BrokerHeartbeat(broker_id, epoch, active.image.offset))
    active.reply(CreateTopics((NewTopic("t", assignments=((0, (1, 2)),)),)))
    return active


@pytest.mark.parametrize("level", LEVELS)
def test_whatever_is_decided_can_be_written(level: int) -> None:
    active = a_cluster(level)

    active.reply(CreatePartitions((NewPartitions("t", 3),)))
    active.reply(AlterPartitionReassignments((("t", (Reassignment(0, (3, 2)),)),)))
    active.reply(given.proposal(active, "t", 1, (1, 2, 3)))
    active.heartbeat(3, want_shut_down=True)
    active.heartbeat(2, want_fence=True)
    active.reply(given.registration(2, incarnation=2))
    active.reply(UnregisterBroker(2))

    assert active.partition("t").replicas == (3, 2)


@pytest.mark.parametrize("level", LEVELS)
def test_a_snapshot_can_be_taken_and_holds_the_same(level: int) -> None:
    image = a_cluster(level).image

    data = snapshot.encode(image, 7)
    loaded = snapshot.load(snapshot_format.decode(data, "x", ""), snapshot.id_of(image))

    assert loaded == image


def test_directories_are_told_once_the_cluster_can_know_of_them() -> None:
    active = a_cluster(DIRECTORIES - 1)
    assert not active.image.brokers[1].directories
    assert active.partition("t").directories == (DIRECTORY_MIGRATING,) * 2

    upgraded = UpdateFeatures((FeatureUpdate("metadata.version", DIRECTORIES, UpgradeType.UPGRADE),))
    active.reply(upgraded)
    epoch = active.reply(given.registration(1))

    assert epoch == active.image.brokers[1].epoch
    assert active.image.brokers[1].directories == (given.directory(1),)
    assert not active.image.brokers[1].fenced


def test_a_broker_need_not_name_directories_before() -> None:
    unnamed = replace(given.registration(4), log_dirs=())

    assert isinstance(a_cluster(DIRECTORIES - 1).submit(unnamed), ControllerResult)
    assert a_cluster(DIRECTORIES).refusal(unnamed) is ErrorCode.invalid_registration


@pytest.mark.parametrize(("level", "is_possible"), [(14, False), (15, True)])
def test_controllers_register_from_a_level_on(level: int, is_possible: bool) -> None:
    result = Written(given.formatted(level)).submit(CONTROLLER)

    message = "The current MetadataVersion is too old to support controller registrations."
    assert (
        isinstance(result, ControllerResult)
        if is_possible
        else result == Refused(ApiError(ErrorCode.unsupported_version, message))
    )


@pytest.mark.parametrize(("level", "is_possible"), [(14, True), (15, False)])
def test_an_upgrade_waits_for_controllers_that_could_have_registered(level: int, is_possible: bool) -> None:
    settings = replace(given.settings(), static_voters=(9,), node_id=1)
    upgrade = UpdateFeatures((FeatureUpdate("metadata.version", 30, UpgradeType.UPGRADE),))

    result = given.handle(upgrade, given.formatted(level), settings)

    assert isinstance(result, ControllerResult if is_possible else Refused)


@pytest.mark.parametrize(("level", "in_one"), [(13, False), (14, True)])
def test_a_new_log_begins_with_a_transaction_where_there_are_some(level: int, in_one: bool) -> None:
    records = activation_records(EMPTY_IMAGE, False, bootstrap_records(level), "1")

    assert isinstance(records[0], BeginTransactionRecord) is in_one
    begun: MetadataImage = given.after(EMPTY_IMAGE, *(each for each in records if isinstance(each, FeatureLevelRecord)))
    assert begun.metadata_version == level
