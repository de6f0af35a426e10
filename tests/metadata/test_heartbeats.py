"""Sessions, and what a broker's heartbeats bring about. The order of states is that of Apache Kafka 4.3.0."""

from dataclasses import replace
from uuid import UUID

import pytest
from tests.metadata import given

from ottla.metadata.controller.requests import (
    BalanceLeaders,
    BrokerHeartbeat,
    CreateTopics,
    FenceBroker,
    HeartbeatReply,
    NewTopic,
)
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.image import MetadataImage
from ottla.model.errors import ErrorCode

STAYS = HeartbeatReply(is_caught_up=True, is_fenced=False, should_shut_down=False)
GOES = HeartbeatReply(is_caught_up=True, is_fenced=True, should_shut_down=True)
SESSION = 9000


def three_brokers(*topics: NewTopic, settings: ControllerSettings | None = None) -> given.Active:
    image = given.cluster(1, 2, 3)
    return given.Active(given.with_topics(image, *topics) if topics else image, settings)


def registered(image: MetadataImage, broker_id: int = 1) -> given.Active:
    active = given.Active(image)
    active.reply(given.registration(broker_id))
    return active


T = NewTopic("t", assignments=((0, (1, 2, 3)),))


def test_a_broker_is_unfenced_once_it_knows_of_its_own_registration() -> None:
    active = registered(given.formatted())
    at = active.image.offset

    behind = active.heartbeat(1, metadata_offset=at - 1)
    there = active.heartbeat(1, metadata_offset=at)

    assert behind == HeartbeatReply(is_caught_up=False, is_fenced=True, should_shut_down=False)
    assert there == STAYS
    assert active.image.brokers[1].active


def test_a_registration_with_changes_before_it_counts_from_its_own_record() -> None:
    active = given.Active(given.with_topics(given.cluster(1), NewTopic("t", 3, 1)))
    epoch = active.reply(given.registration(1, incarnation=2))

    assert active.image.offset == epoch + 3
    assert not active.heartbeat(1, metadata_offset=epoch + 2).is_caught_up
    assert active.heartbeat(1, metadata_offset=epoch + 3).is_caught_up


def test_a_broker_that_is_not_ready_stays_fenced() -> None:
    active = registered(given.formatted())

    assert active.heartbeat(1, want_fence=True).is_fenced
    assert active.image.brokers[1].fenced


def test_a_broker_may_ask_to_be_fenced() -> None:
    active = three_brokers(T)

    assert active.heartbeat(1, want_fence=True) == HeartbeatReply(True, True, False)
    assert active.image.brokers[1].fenced
    assert active.partition("t").leader == 2


@pytest.mark.parametrize(("broker_id", "off"), [(9, 0), (1, -1), (1, 1)])
def test_a_heartbeat_of_no_registration_is_stale(broker_id: int, off: int) -> None:
    active = three_brokers()
    epoch = active.image.brokers[1].epoch + off

    assert active.refusal(BrokerHeartbeat(broker_id, epoch, 0)) is ErrorCode.stale_broker_epoch


# -- going


def test_a_fenced_broker_may_go_at_once() -> None:
    active = registered(given.formatted())

    assert active.heartbeat(1, want_shut_down=True) == GOES


def test_a_broker_that_leads_nothing_may_go_at_once() -> None:
    active = three_brokers(T)

    assert active.heartbeat(3, want_shut_down=True) == GOES
    assert active.image.brokers[3].fenced
    assert active.partition("t").isr == (1, 2)


def test_a_broker_that_wants_both_goes_at_once() -> None:
    active = three_brokers(T)

    assert active.heartbeat(1, want_fence=True, want_shut_down=True) == GOES
    assert active.partition("t").leader == 2


def test_a_leader_goes_when_its_leaderships_have_moved_and_all_others_know() -> None:
    active = three_brokers(T)
    for broker_id in (2, 3):
        active.heartbeat(broker_id)

    first = active.heartbeat(1, want_shut_down=True)

    assert first == STAYS
    assert active.image.brokers[1].in_controlled_shutdown
    assert (active.partition("t").leader, active.partition("t").isr) == (2, (2, 3))
    moved_at = active.image.offset
    assert active.heartbeat(1, want_shut_down=True) == STAYS
    active.heartbeat(2)
    active.heartbeat(3, metadata_offset=moved_at - 1)
    assert active.heartbeat(1, want_shut_down=True) == STAYS
    active.heartbeat(3, metadata_offset=moved_at)
    assert active.heartbeat(1, want_shut_down=True) == GOES
    assert active.image.brokers[1].fenced


def test_the_last_broker_waits_for_nobody() -> None:
    active = given.Active(given.with_topics(given.cluster(1), NewTopic("t", 1, 1)))

    assert active.heartbeat(1, want_shut_down=True) == STAYS
    assert active.partition("t").leader == -1
    assert active.heartbeat(1, want_shut_down=True) == GOES


def test_a_fenced_broker_holds_nobody_up() -> None:
    active = three_brokers(T)
    active.heartbeat(2)
    active.heartbeat(3, want_fence=True)

    active.heartbeat(1, want_shut_down=True)
    active.heartbeat(2)

    assert active.heartbeat(1, want_shut_down=True) == GOES


def test_a_new_controller_lets_a_broker_go_that_its_predecessor_had_begun_to_move_away() -> None:
    before = three_brokers(T)
    before.heartbeat(1, want_shut_down=True)

    active = given.Active(before.image)

    assert active.heartbeat(1, want_shut_down=True) == GOES


# -- sessions


def test_a_silent_broker_is_fenced_when_its_session_is_over() -> None:
    active = three_brokers(T)
    for broker_id in (1, 2, 3):
        active.heartbeat(broker_id)
    active.now_ms = 2000
    active.heartbeat(2)
    active.heartbeat(3)

    assert active.after(SESSION - 2000) == []
    assert active.after(1) == [FenceBroker(1, active.image.brokers[1].epoch)]
    assert (active.partition("t").leader, active.partition("t").isr) == (2, (2, 3))
    assert active.after(1) == []


def test_those_who_fall_silent_together_are_fenced_one_after_the_other() -> None:
    active = three_brokers(T)

    assert [request.broker_id for request in active.after(SESSION + 1) if isinstance(request, FenceBroker)] == [1, 2, 3]
    assert all(broker.fenced for broker in active.image.brokers.values())
    assert active.partition("t").leader == -1


def test_a_new_controller_starts_all_sessions_afresh() -> None:
    old = three_brokers()
    old.now_ms = SESSION

    new = given.Active(old.image)

    assert new.after(SESSION) == []


def test_the_broker_in_the_controllers_own_process_has_no_session_of_before() -> None:
    active = three_brokers(settings=replace(given.settings(), node_id=2))

    fenced = [request.broker_id for request in active.after(SESSION + 1) if isinstance(request, FenceBroker)]

    assert fenced == [1, 3]


def test_the_controller_wants_to_be_woken_when_the_next_session_ends() -> None:
    active = three_brokers()
    assert active.soft.wake_in_ms() == SESSION / 8
    active.now_ms = SESSION - 100

    assert active.soft.wake_in_ms() == 101


def test_a_controller_that_did_not_run_itself_does_not_blame_others() -> None:
    active = three_brokers()
    wait = active.soft.wake_in_ms()

    assert active.after(wait + 2 * SESSION) == [], "their heartbeats may be waiting to be read"
    active.heartbeat(1)
    assert [request.broker_id for request in active.after(SESSION) if isinstance(request, FenceBroker)] == [2, 3]


def test_while_a_session_lives_no_other_process_gets_the_id() -> None:
    active = three_brokers()
    other = replace(given.registration(1, incarnation=2), is_remote=True)
    same = replace(given.registration(1, incarnation=1), is_remote=True)

    assert active.refusal(other) is ErrorCode.duplicate_broker_registration
    assert active.reply(same) == active.image.brokers[1].epoch
    active.after(SESSION + 1)
    assert active.reply(other) == active.image.brokers[1].epoch


def test_a_broker_that_has_gone_may_be_back_at_once() -> None:
    active = three_brokers()
    active.heartbeat(1, want_shut_down=True)

    active.reply(replace(given.registration(1, incarnation=2), is_remote=True))

    assert active.image.brokers[1].incarnation_id == UUID(int=2)


def test_a_registration_alone_is_no_session() -> None:
    active = registered(given.formatted())

    assert active.reply(replace(given.registration(1, incarnation=2), is_remote=True)) == active.image.brokers[1].epoch


# -- directories


def test_a_directory_that_failed_takes_its_partitions_elsewhere() -> None:
    active = three_brokers(T)

    active.heartbeat(1, offline_directories=(given.directory(1), UUID(int=999)))

    assert (active.partition("t").leader, active.partition("t").isr) == (2, (2, 3))
    assert active.heartbeat(1, offline_directories=(given.directory(1),)) == STAYS


def test_a_broker_that_comes_back_without_a_directory_does_not_lead_what_was_in_it() -> None:
    active = given.Active(given.with_topics(given.cluster(1), NewTopic("one", 1, 1)))
    one, two = given.directory(1), UUID(int=5000)
    active.reply(replace(given.registration(1, incarnation=2), log_dirs=(one, two)))

    active.heartbeat(1, offline_directories=(one,))

    assert active.image.brokers[1].directories == (two,)
    assert active.partition("one").leader == -1


def test_cordoned_directories_are_noted_once() -> None:
    active = three_brokers()
    offset = active.image.offset

    active.heartbeat(1, cordoned_directories=(given.directory(1),))
    active.heartbeat(1, cordoned_directories=(given.directory(1),))
    active.heartbeat(1, cordoned_directories=None)

    assert active.image.brokers[1].cordoned_directories == (given.directory(1),)
    assert active.image.offset == offset + 1


# -- what the controller does by itself


def test_leaderships_go_back_to_preferred_replicas() -> None:
    active = three_brokers(T)
    active.heartbeat(1, want_fence=True)
    active.heartbeat(1)
    active.submit(given.proposal(active, "t", 2, (2, 3, 1)))
    assert active.partition("t").leader == 2

    for broker_id in (1, 2, 3):
        active.heartbeat(broker_id)
    active.soft.brokers[1].seen_ms = active.soft.brokers[2].seen_ms = active.soft.brokers[3].seen_ms = 300_000
    active.after(300_000)

    assert active.partition("t").leader == 1


def test_leaderships_stay_where_balancing_is_off() -> None:
    active = three_brokers(settings=replace(given.settings(), balance_every_ms=None))

    assert BalanceLeaders() not in active.after(300_000)
    assert BalanceLeaders() in three_brokers().after(300_000)


def test_a_partition_without_a_leader_gets_one_when_its_topic_comes_to_allow_an_unclean_one() -> None:
    active = given.Active(given.cluster(1, 2))
    active.reply(CreateTopics((NewTopic("t", assignments=((0, (1, 2)),)),)))
    active.submit(given.proposal(active, "t", 1, (1,)))
    active.heartbeat(1, want_fence=True)
    assert active.partition("t").leader == -1
    active.image = given.after(active.image, given.topic_config("t", "unclean.leader.election.enable", "true"))
    active.soft.brokers[2].seen_ms = 300_000

    active.after(300_000)

    partition = active.partition("t")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)
