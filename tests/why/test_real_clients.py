"""Real clients that are closed, killed, stopped and kept busy: each time the group knows why.

Each once in the ordinary run; among the slow tests with both protocols, twenty groups, ten of them side by side, each
with a timing of its own and none with a second chance.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
from tests.why.given import PATIENT, PROTOCOLS, QUICK, Group, Member, Pace, group_of

from ottla.testing.process import NodeProcess

Story = Callable[[Group], tuple[str, list[Member]]]


def closed(group: Group) -> tuple[str, list[Member]]:
    group.misses_nobody()
    members = group.start("one", "two", "three")
    group.settle(3)
    group.wait(0, 2)
    members[1].close()
    return "closed", members[1:2]


def killed(group: Group) -> tuple[str, list[Member]]:
    members = group.start("one", "two", "three")
    group.settle(3)
    group.wait(0, 2)
    members[1].kill()
    return "died", members[1:2]


def stopped_for_a_while(group: Group) -> tuple[str, list[Member]]:
    members = group.start("one", "two", "three")
    group.settle(3)
    group.wait(0, 2)
    members[1].pause()
    group.wait(group.pace.session_s + 1, group.pace.session_s + 3)
    members[1].resume()
    return "paused", members[1:2]


def stopped_for_good(group: Group) -> tuple[str, list[Member]]:
    members = group.start("one", "two", "three")
    group.settle(3)
    group.wait(0, 2)
    members[1].pause()
    return "paused", members[1:2]


def stopped_again_and_again(group: Group) -> tuple[str, list[Member]]:
    members = group.start("one", "two", "three")
    group.settle(3)
    for _ in range(2):
        members[1].pause()
        group.wait(group.pace.session_s + 1, group.pace.session_s + 2)
        members[1].resume()
        group.wait(1, 2)
        group.settle(3)
    return "session-too-short", members[1:2]


def kept_busy(group: Group) -> tuple[str, list[Member]]:
    members = group.start("one", "two", "three")
    group.settle(3)
    group.wait(group.pace.poll_s, group.pace.poll_s + 1)
    members[1].stop_polling()
    if group.random.random() < 0.5:
        group.wait(group.pace.poll_s + 3, group.pace.poll_s + 4)
        members[1].stop_polling()
    return "poll-interval", members[1:2]


def static_members_restarted(group: Group) -> tuple[str, list[Member]]:
    group.misses_nobody()
    members = group.start("one", "two", instance=True)
    group.settle(2)
    group.wait(0, 1)
    members[1].close()
    again = group.start("two", instance=True)
    return "static-restart", [members[1], *again]


def static_member_away_for_too_long(group: Group) -> tuple[str, list[Member]]:
    members = group.start("one", "two", instance=True)
    group.settle(2)
    group.wait(0, 1)
    members[1].close()
    return "static-too-late", members[1:2]


def deployed_one_after_the_other(group: Group) -> tuple[str, list[Member]]:
    group.misses_nobody()
    members = group.start("one", "two")
    group.settle(2)
    again = []
    for member in members:
        group.wait(0, 1)
        member.close()
        group.wait(0, 2)
        again += group.start(member.name)
        group.settle(2)
    return "rolling-restart", [*members, *again]


def made_larger(group: Group) -> tuple[str, list[Member]]:
    group.misses_nobody()
    group.start("one", "two")
    group.settle(2)
    group.wait(11, 13)  # who comes at once belongs to the beginning
    return "scaled-up", group.start("three", "four")


def made_smaller(group: Group) -> tuple[str, list[Member]]:
    group.misses_nobody()
    members = group.start("one", "two", "three", "four")
    group.settle(4)
    for member in members[:2]:
        group.wait(0, 2)
        member.close()
    return "scaled-down", members[:2]


STORIES: Final[list[Story]] = [
    closed, killed, stopped_for_a_while, stopped_for_good, stopped_again_and_again, kept_busy, static_members_restarted,
    static_member_away_for_too_long, deployed_one_after_the_other, made_larger, made_smaller,
]  # fmt: skip
HARMLESS: Final = {"started", "idle-members", "broker-stood-still"}
"""What blames nobody."""
REPETITIONS: Final = 20
SIDE_BY_SIDE: Final = 10


def wrongly_told(node: NodeProcess, story: Story, protocol: str, seed: int, pace: Pace) -> str | None:
    """Plays a story; what was said of it that is not so, if anything."""
    with group_of(node, protocol, seed, pace) as group:
        expected, involved = story(group)
        group.until(lambda: expected in group.findings(), expected)
        group.wait(0, 3)  # what becomes known later must not change it
        found = group.findings()
    names = {member.name for member in involved}
    if found.keys() <= {expected} | HARMLESS and expected in found and set(found[expected]["members"]) <= names:
        return None
    summaries = {kind: finding["summary"] for kind, finding in found.items()}
    return f"seed {seed}: {expected} of {names} was expected, and found {summaries}"


def _once_each() -> Iterator[Any]:
    """Each story with one of the protocols in the ordinary run, with the other among the slow tests."""
    for number, story in enumerate(STORIES):
        for place, protocol in enumerate(PROTOCOLS):
            marks = () if (number + place) % 2 else pytest.mark.slow
            yield pytest.param(story, protocol, id=f"{story.__name__}-{protocol}", marks=marks)


@pytest.mark.parametrize(("story", "protocol"), [*_once_each()])
def test_real_clients(node: NodeProcess, story: Story, protocol: str) -> None:
    """On a busy machine members are late now and then for so short a session, and that is told too: then again."""
    wrong: list[str] = []
    while len(wrong) < 3:
        told = wrongly_told(node, story, protocol, len(wrong), QUICK)
        if told is None:
            return
        wrong.append(told)
    pytest.fail("\n".join(wrong))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_broker_that_stood_still_blames_nobody(node: NodeProcess, protocol: str) -> None:
    """For longer than its members' sessions last: what they said meanwhile is heard before anyone is missed."""
    with group_of(node, protocol, 0, QUICK._replace(poll_s=60)) as group:
        group.start("one", "two", "three")
        group.settle(3)
        before = group.why()["history"]
        os.kill(node.pid, signal.SIGSTOP)
        time.sleep(2 * QUICK.session_s)
        os.kill(node.pid, signal.SIGCONT)
        time.sleep(2 * QUICK.session_s)
        group.settle(3)
        assert group.findings().keys() <= HARMLESS, json.dumps(group.why(), indent=1)
        assert len(before) <= len(group.why()["history"]) <= len(before) + 1


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_real_clients_twenty_times(node: NodeProcess, story: Story, protocol: str) -> None:
    def play(seed: int) -> str | None:
        try:
            return wrongly_told(node, story, protocol, seed, PATIENT)
        except AssertionError as never:
            return f"seed {seed}: {never}"

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        told = [*pool.map(play, range(REPETITIONS))]
    wrong = [each for each in told if each is not None]
    assert not wrong, f"{len(wrong)} of {len(told)}:\n" + "\n".join(wrong)
