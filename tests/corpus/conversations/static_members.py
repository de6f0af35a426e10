"""Members with an instance id (KIP-345): they come back under another id, and the old one is fenced."""

from __future__ import annotations

from tests.corpus.conversations.members import TWO, pair, share
from tests.corpus.conversations.registry import conversation
from tests.corpus.conversations.talk import Talk
from tests.corpus.conversations.voices import ORDERS, OTHER, RANGE, Admin, Versions, Voice, subscription

from ottla.model.errors import ErrorCode

SINCE = range(5, 11)


def _again(talk: Talk, who: str, instance: str, versions: Versions) -> Voice:
    """The same instance, in another process."""
    return Voice(talk, who, talk.group(), instance, versions)


@conversation(SINCE)
def one_that_is_restarted(talk: Talk, versions: Versions) -> None:
    one, admin = Voice(talk, "a", talk.group(), "i", versions), Admin(talk, talk.group(), versions)
    one.enter()
    one.heartbeat()
    one.commit()
    admin.describe()
    restarted = _again(talk, "a again", "i", versions)
    restarted.join()
    restarted.sync()
    restarted.heartbeat()
    restarted.commit()
    one.heartbeat()
    one.sync()
    one.commit()
    one.commit(group_instance_id=None)
    one.join()
    one.leave()
    one.heartbeat(group_instance_id=None)
    one.leave((one.id, None))
    restarted.heartbeat(group_instance_id=None)
    restarted.commit(group_instance_id=None)
    admin.describe()
    restarted.leave(("", "i"))
    restarted.heartbeat()
    admin.describe()


@conversation(SINCE)
def a_follower_that_is_restarted(talk: Talk, versions: Versions) -> None:
    first, second = pair(talk, versions, "i", "j")
    restarted = _again(talk, "b again", "j", versions)
    restarted.join()
    restarted.sync()
    first.heartbeat()
    second.heartbeat()
    Admin(talk, talk.group(), versions).describe()
    restarted.join()
    first.heartbeat()


@conversation(SINCE)
def a_leader_that_is_restarted(talk: Talk, versions: Versions) -> None:
    _, second = pair(talk, versions, "i", "j")
    restarted = _again(talk, "a again", "i", versions)
    restarted.join()
    restarted.sync((restarted.id, b"all"), (second.id, b"nothing"))
    second.heartbeat()
    second.sync()
    restarted.say_join()
    second.heartbeat_until(ErrorCode.rebalance_in_progress)
    second.join()
    restarted.hear_join()
    share(restarted, second)


@conversation((5, 9))
def one_that_wants_something_else_after_its_restart(talk: Talk, versions: Versions) -> None:
    first, _ = pair(talk, versions, "i", "j")
    restarted = _again(talk, "b again", "j", versions)
    restarted.join((("range", subscription(ORDERS, OTHER)),))
    restarted.sync()
    first.heartbeat()
    Admin(talk, talk.group(), versions).describe()
    again = _again(talk, "b once more", "j", versions)
    again.join(TWO)
    first.heartbeat()
    last = _again(talk, "b with others", "j", versions)
    last.join((("roundrobin", b""),))
    first.heartbeat()


@conversation((5, 9))
def one_that_is_restarted_while_all_gather(talk: Talk, versions: Versions) -> None:
    first, second = pair(talk, versions, "i", "j")
    first.say_join()
    talk.is_silent("a")
    restarted = _again(talk, "a again", "i", versions)
    restarted.say_join()
    first.hear_join()
    talk.is_silent("a again")
    second.join()
    restarted.hear_join()
    second.say_sync()
    talk.is_silent("b")
    late = _again(talk, "b again", "j", versions)
    late.say_join()  # the generation has begun: all must gather again
    second.hear_sync()
    restarted.heartbeat()
    restarted.sync((restarted.id, b"all"))
    restarted.join()
    late.hear_join()
    share(restarted, late)


@conversation((5, 9))
def one_that_stays_away_keeps_its_place(talk: Talk, versions: Versions) -> None:
    first, second = pair(talk, versions, "i", "j", rebalance=400)
    first.join(rebalance=400)
    Admin(talk, talk.group(), versions).describe()
    first.sync((first.id, b"mine"), (second.id, b"yours"))
    second.heartbeat()
    second.sync()
    second.heartbeat(generation_id=second.generation + 1)
    second.sync(generation_id=second.generation + 1)


@conversation((3, 4, 5))
def many_of_them_leave_at_once(talk: Talk, versions: Versions) -> None:
    """With JoinGroup's newest version, as the others have no instances there."""
    newest = versions._replace(join=9)
    first, second = pair(talk, newest, "i", "j")
    admin = Voice(talk, "admin", talk.group(), None, newest)
    admin.leave(("stranger", "i"), ("", "nobody"), (first.id, "j"), (first.id, "nobody"), ("stranger", None))
    first.heartbeat()
    admin.leave(("", "j"), ("", "j"), (second.id, "j"))
    first.heartbeat_until(ErrorCode.rebalance_in_progress)
    admin.leave((first.id, None))
    Admin(talk, talk.group(), newest).describe()
    again = _again(talk, "a again", "i", newest)
    again.join()


@conversation((5, 9))
def a_static_member_beside_others(talk: Talk, versions: Versions) -> None:
    first, second = pair(talk, versions, "i")
    restarted = _again(talk, "a again", "i", versions)
    restarted.join()
    second.heartbeat()
    second.leave()
    restarted.heartbeat_until(ErrorCode.rebalance_in_progress)
    restarted.join()
    restarted.sync((restarted.id, b"all"))
    first.heartbeat()


@conversation((5, 9))
def two_with_the_same_instance_at_once(talk: Talk, versions: Versions) -> None:
    one, other = (Voice(talk, who, talk.group(), "i", versions) for who in "ab")
    one.enter(RANGE)
    for _ in range(2):
        other.join()
        one.heartbeat()
        one.id = ""
        one.join()
        other.heartbeat()
        other.id = ""
