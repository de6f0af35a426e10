"""Other levels for features: what is refused, and in which words, was recorded from Apache Kafka 4.3.0."""

from dataclasses import replace
from uuid import UUID

import pytest
from tests.metadata import given

from ottla.metadata.controller.features import SUPPORTED, bootstrap_records
from ottla.metadata.controller.requests import (
    FeatureUpdate,
    RegisterController,
    UnfenceBroker,
    UpdateFeatures,
    UpgradeType,
)
from ottla.metadata.controller.result import ControllerResult, Refused
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, VersionRange
from ottla.metadata.records.feature_level_record import FeatureLevelRecord
from ottla.model.errors import ErrorCode

UNKNOWN, UPGRADE, SAFE, UNSAFE = UpgradeType
NAME = "metadata.version"


def at_level(level: int) -> MetadataImage:
    image = given.after(EMPTY_IMAGE, *bootstrap_records(level))
    image = given.decided(given.registration(), image)
    return given.decided(UnfenceBroker(1, image.brokers[1].epoch), image)


def update(
    image: MetadataImage, *updates: tuple[str, int, UpgradeType], validate_only: bool = False
) -> ControllerResult[None] | Refused:
    request = UpdateFeatures(tuple(FeatureUpdate(*each) for each in updates), validate_only)
    return given.handle(request, image, given.settings())


def level(number: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=NAME, feature_level=number)


def test_a_cluster_is_upgraded() -> None:
    assert update(at_level(29), (NAME, 30, UPGRADE)) == ControllerResult(None, (level(30),))


def test_a_level_that_holds_already_is_no_change() -> None:
    assert update(at_level(30), (NAME, 30, UPGRADE)) == ControllerResult(None)
    assert update(at_level(30), ("kraft.version", 0, UPGRADE)) == ControllerResult(None)


def test_validate_only_writes_nothing() -> None:
    assert update(at_level(29), (NAME, 30, UPGRADE), validate_only=True) == ControllerResult(None)


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_there_is_a_way_back_where_the_format_is_the_same(kind: UpgradeType) -> None:
    assert update(at_level(29), (NAME, 25, kind)) == ControllerResult(None, (level(25),))


@pytest.mark.parametrize(
    ("updates", "words"),
    [
        ([(NAME, 29, UPGRADE)], "without setting the upgrade type to either safe or unsafe downgrade."),
        ([(NAME, 29, SAFE)], "Refusing to perform the requested downgrade because it might delete metadata"),
        ([(NAME, 29, UNSAFE)], "Unsafe metadata downgrade is not supported in this version."),
        ([(NAME, 31, UPGRADE)], "only supports versions 7-30"),
        ([(NAME, 6, SAFE)], "only supports versions 7-30"),
        ([(NAME, -1, UPGRADE)], "A feature version cannot be less than 0."),
        ([(NAME, 30, UNKNOWN)], "The controller does not support the given upgrade type."),
        ([("no.such", 1, UPGRADE)], "does not support this feature."),
        ([("", 1, UPGRADE)], "does not support this feature."),
        ([("kraft.version", 1, UPGRADE)], "because not all of the voters support it"),
        ([(NAME, 30, UPGRADE), ("no.such", 1, UPGRADE)], "Invalid update version 1 for feature no.such."),
    ],
)
def test_what_cannot_be_is_refused_as_a_whole(updates: list[tuple[str, int, UpgradeType]], words: str) -> None:
    outcome = update(at_level(30), *updates)

    assert isinstance(outcome, Refused)
    assert outcome.error.code is ErrorCode.invalid_update_version
    message = outcome.error.message or ""
    assert message.startswith("The update failed for all features since the following feature had an error: ")
    assert words in message


def test_a_downgrade_does_not_go_up() -> None:
    outcome = update(at_level(29), (NAME, 30, SAFE))

    assert isinstance(outcome, Refused)
    assert "Can't downgrade to a newer version." in (outcome.error.message or "")


def refusal_with(image: MetadataImage, voters: tuple[int, ...] = ()) -> str:
    settings = replace(given.settings(), node_id=1, static_voters=voters)
    outcome = given.handle(UpdateFeatures((FeatureUpdate(NAME, 30, UPGRADE),)), image, settings)
    return (outcome.error.message or "") if isinstance(outcome, Refused) else ""


def controller(node_id: int, newest: int) -> RegisterController:
    return RegisterController(node_id, UUID(int=node_id), (), ((NAME, VersionRange(7, newest)),))


def test_all_brokers_and_controllers_must_support_a_level() -> None:
    image = at_level(29)
    old = replace(given.registration(2), features=((NAME, VersionRange(7, 29)), *list(SUPPORTED.items())[1:]))

    assert refusal_with(image) == ""
    assert "Broker 2 only supports versions 7-29" in refusal_with(given.decided(old, image))
    assert refusal_with(given.decided(controller(3, 30), image), (1, 3)) == ""
    assert "Controller 3 only supports versions 7-29" in refusal_with(given.decided(controller(3, 29), image))
    assert refusal_with(given.decided(controller(1, 29), image)) == "", "this one knows better itself"


def test_a_voter_that_has_not_registered_may_not_support_it() -> None:
    words = "controller 2 has not registered, and may not support this feature"

    assert words in refusal_with(at_level(29), (1, 2))
