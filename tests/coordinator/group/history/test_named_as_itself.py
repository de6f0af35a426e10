"""Each kind of trouble is named as itself, whenever it happens, and nobody else is blamed for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from tests.coordinator.group.history.given import SESSION_MS, Client, World

from ottla.coordinator.group.history.finding import TROUBLE, Finding, Kind

REPETITIONS: Final = 25
Story = Callable[[World], tuple[set[Kind], list[Client]]]
"""Makes something happen; says which findings there must be, and who is the cause."""


def closed(world: World) -> tuple[set[Kind], list[Client]]:
    clients = world.group(3)
    clients[1].close()
    world.run(world.between(5, 60))
    return {Kind.CLOSED}, [clients[1]]


def closed_on_a_busy_machine(world: World) -> tuple[set[Kind], list[Client]]:
    clients = world.group(3)
    clients[1].close(hang_up_ms=12_000)
    world.run(world.between(15, 60))
    return {Kind.CLOSED}, [clients[1]]


def killed(world: World) -> tuple[set[Kind], list[Client]]:
    clients = world.group(3)
    clients[1].kill()
    world.run(world.between(15, 60))
    return {Kind.DIED}, [clients[1]]


def killed_and_started_again(world: World) -> tuple[set[Kind], list[Client]]:
    clients = world.group(3)
    clients[1].kill()
    world.run(world.between(0, 60))
    again = world.start("worker-1")
    world.run(world.between(15, 30))
    return {Kind.DIED}, [clients[1], again]


def in_a_crash_loop(world: World) -> tuple[set[Kind], list[Client]]:
    victim = world.group(3)[1]
    for _ in range(world.random.randint(3, 6)):
        victim.kill()
        world.run(world.between(12, 30))
        victim = world.start("worker-1")
        world.run(world.between(10, 40))
    return {Kind.CRASH_LOOP}, [victim]


def paused(world: World) -> tuple[set[Kind], list[Client]]:
    clients = world.group(3)
    clients[1].pause()
    world.run(SESSION_MS / 1000 + world.between(4, 60))
    if world.random.random() < 0.7:
        clients[1].resume()
        world.run(world.between(5, 30))
    return {Kind.PAUSED}, [clients[1]]


def paused_longer_than_the_session_again_and_again(world: World) -> tuple[set[Kind], list[Client]]:
    clients = world.group(3)
    for _ in range(world.random.randint(2, 5)):
        clients[1].pause()
        world.run(SESSION_MS / 1000 + world.between(4, 15))
        clients[1].resume()
        world.run(world.between(20, 40))
    return {Kind.SESSION_TOO_SHORT}, [clients[1]]


def too_long_without_poll(world: World) -> tuple[set[Kind], list[Client]]:
    clients = world.group(3)
    world.run(30)
    for _ in range(world.random.randint(1, 4)):
        clients[1].be_busy(world.between(62, 100))
        world.run(world.between(110, 150))
    return {Kind.POLL_INTERVAL}, [clients[1]]


def too_long_without_poll_and_says_so(world: World) -> tuple[set[Kind], list[Client]]:
    clients = world.group(3, reasons=True)
    clients[1].be_busy(world.between(62, 100))
    world.run(world.between(110, 150))
    return {Kind.POLL_INTERVAL}, [clients[1]]


def too_long_without_poll_in_a_rebalance(world: World) -> tuple[set[Kind], list[Client]]:
    """A rebalance that somebody else began waits for the one that does not poll, and goes on without it."""
    clients = world.group(3)
    clients[1].be_busy(500)
    world.run(world.between(1, 20))
    world.start("worker-3")
    world.run(90)
    return {Kind.POLL_INTERVAL}, [clients[1]]


def unsubscribed(world: World) -> tuple[set[Kind], list[Client]]:
    clients = world.group(3)
    clients[1].unsubscribe()
    world.run(world.between(5, 60))
    return {Kind.UNSUBSCRIBED}, [clients[1]]


def static_restart(world: World) -> tuple[set[Kind], list[Client]]:
    clients = [world.start(f"worker-{n}", instance=f"pod-{n}") for n in range(3)]
    world.run(50)
    again = []
    for client in clients:
        client.close()
        world.run(world.between(1, 7))
        again.append(world.start(client.name, instance=client.instance))
        world.run(world.between(5, 15))
    return {Kind.STATIC_RESTART}, [*clients, *again]


def static_too_late(world: World) -> tuple[set[Kind], list[Client]]:
    clients = [world.start(f"worker-{n}", instance=f"pod-{n}") for n in range(3)]
    world.run(50)
    clients[1].close()
    world.run(world.between(14, 40))
    again = world.start("worker-1", instance="pod-1")
    world.run(world.between(15, 30))
    return {Kind.STATIC_TOO_LATE}, [clients[1], again]


def same_instance_id_twice(world: World) -> tuple[set[Kind], list[Client]]:
    clients = [world.start(f"worker-{n}", instance=f"pod-{n}") for n in range(2)]
    world.run(50)
    thief = world.start("worker-9", instance="pod-1")
    world.run(world.between(10, 30))
    return {Kind.DUPLICATE_INSTANCE}, [clients[1], thief]


def rolling_deployment(world: World) -> tuple[set[Kind], list[Client]]:
    clients = world.group(world.random.randint(2, 5))
    again = []
    for client in clients:
        client.close()
        world.run(world.between(1, 40))
        again.append(world.start(client.name))
        world.run(world.between(5, 60))
    return {Kind.ROLLING_RESTART}, [*clients, *again]


def rolling_deployment_of_pods(world: World) -> tuple[set[Kind], list[Client]]:
    """New pods have other names, and come before the old ones go."""
    clients = [world.start(f"billing-7d9f8c-{_pod(world)}") for _ in range(3)]
    world.run(50)
    again = []
    for client in clients:
        again.append(world.start(f"billing-5c6b7d-{_pod(world)}"))
        world.run(world.between(4, 30))
        client.close()
        world.run(world.between(4, 40))
    return {Kind.ROLLING_RESTART}, [*clients, *again]


def _pod(world: World) -> str:
    return "".join(world.random.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(4)) + "7"


def scaled_up(world: World) -> tuple[set[Kind], list[Client]]:
    world.group(2)
    new = [world.start(f"worker-{n}") for n in range(2, 2 + world.random.randint(1, 3))]
    world.run(world.between(10, 60))
    return {Kind.SCALED_UP}, new


def scaled_down(world: World) -> tuple[set[Kind], list[Client]]:
    clients = world.group(5)
    gone = clients[: world.random.randint(2, 4)]
    for client in gone:
        client.close()
        world.run(world.between(0, 20))
    world.run(10)
    return {Kind.SCALED_DOWN}, gone


def other_topics(world: World) -> tuple[set[Kind], list[Client]]:
    world.topics["payments"] = 2
    clients = world.group(3)
    clients[1].subscribe("orders", "payments")
    world.run(world.between(10, 60))
    return {Kind.SUBSCRIPTION_CHANGED}, [clients[1]]


def more_partitions(world: World) -> tuple[set[Kind], list[Client]]:
    clients = world.group(3)
    world.topics["orders"] = 12
    leader = next(client for client in clients if client.id == world.coordinator.group.leader)
    leader._join()
    world.run(world.between(10, 60))
    return {Kind.PARTITIONS_CHANGED}, [leader]


def one_slow_to_rejoin(world: World) -> tuple[set[Kind], list[Client]]:
    clients = world.group(3)
    clients[1].rejoin_delay_ms = world.between(6000, 30_000)
    new = world.start("worker-3")
    world.run(60)
    return {Kind.SLOW_REJOIN, Kind.SCALED_UP}, [clients[1], new]


def the_broker_stood_still(world: World) -> tuple[set[Kind], list[Client]]:
    """For longer than sessions last: all are put out, and come back as soon as they are heard."""
    clients = world.group(3)
    world.stand_still(SESSION_MS / 1000 + world.between(1, 60))
    world.run(world.between(5, 60))
    return {Kind.BROKER_STOOD_STILL}, clients


def one_paused_while_the_broker_stood_still_for_a_moment(world: World) -> tuple[set[Kind], list[Client]]:
    clients = world.group(3)
    clients[1].pause()
    world.run(world.between(0, 3))
    world.stand_still(world.between(0.3, 3))
    world.run(SESSION_MS / 1000 + world.between(4, 60))
    clients[1].resume()
    world.run(world.between(5, 30))
    return {Kind.PAUSED}, [clients[1]]


def more_members_than_partitions(world: World) -> tuple[set[Kind], list[Client]]:
    world.topics["orders"] = 2
    clients = world.group(4)
    return {Kind.IDLE_MEMBERS}, clients


STORIES: Final[list[Story]] = [
    closed, closed_on_a_busy_machine, killed, killed_and_started_again, in_a_crash_loop, paused,
    paused_longer_than_the_session_again_and_again, too_long_without_poll, too_long_without_poll_and_says_so,
    too_long_without_poll_in_a_rebalance, unsubscribed, static_restart, static_too_late, same_instance_id_twice,
    rolling_deployment, rolling_deployment_of_pods, scaled_up, scaled_down, other_topics, more_partitions,
    one_slow_to_rejoin, the_broker_stood_still, one_paused_while_the_broker_stood_still_for_a_moment,
    more_members_than_partitions,
]  # fmt: skip

MAY_COME_ALONG: Final[dict[Story, set[Kind]]] = {
    too_long_without_poll_in_a_rebalance: {Kind.SCALED_UP, Kind.SLOW_REJOIN},
    same_instance_id_twice: {Kind.STATIC_RESTART},
}
"""What is true as well."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_it_is_named_as_itself(story: Story) -> None:
    for seed in range(REPETITIONS):
        world = World(seed)
        expected, involved = story(world)
        found = world.kinds()
        told = {kind: finding.summary for kind, finding in found.items()}
        assert expected <= found.keys(), (seed, told)
        others = found.keys() - expected - {Kind.STARTED} - MAY_COME_ALONG.get(story, set())
        assert not others, (seed, told)
        for kind in expected:
            _check_blame(found[kind], involved, seed)


def _check_blame(finding: Finding, involved: list[Client], seed: int) -> None:
    names = {client.instance or client.name for client in involved}
    blamed = {name.partition(" (…")[0] for name in finding.members}
    assert blamed <= names, (seed, finding)


@pytest.mark.parametrize("seed", range(REPETITIONS))
def test_what_cannot_be_known_is_called_probable(seed: int) -> None:
    for reasons in (False, True):
        world = World(seed)
        clients = world.group(2, reasons=reasons)
        clients[1].be_busy(world.between(62, 100))
        world.run(120)
        finding = world.kinds()[Kind.POLL_INTERVAL]
        assert finding.is_certain is reasons
        assert ("probably" in finding.summary) is not reasons
        assert finding.evidence


@pytest.mark.parametrize("seed", range(REPETITIONS))
def test_a_quiet_group_has_no_trouble(seed: int) -> None:
    world = World(seed)
    world.group(world.random.randint(1, 6))
    world.run(world.between(100, 1000))
    assert not world.kinds().keys() & TROUBLE
    assert not world.kinds().keys() - {Kind.STARTED}


@pytest.mark.parametrize("seed", range(REPETITIONS))
def test_two_troubles_at_once_are_two_findings(seed: int) -> None:
    world = World(seed)
    clients = world.group(4)
    clients[0].kill()
    world.run(world.between(0, 5))
    clients[1].pause()
    world.run(60)
    found = world.kinds()
    assert {Kind.DIED, Kind.PAUSED} <= found.keys()
    assert found[Kind.DIED].members == ["worker-0"]
    assert found[Kind.PAUSED].members == ["worker-1"]
