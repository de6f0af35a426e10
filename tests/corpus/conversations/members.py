"""Members of classic groups: they come, share, go, and do it all wrong."""

from __future__ import annotations

from tests.corpus.conversations.registry import conversation
from tests.corpus.conversations.talk import Talk
from tests.corpus.conversations.voices import ORDERS, OTHER, RANGE, Admin, Versions, Voice, subscription

from ottla.model.errors import ErrorCode

ALL_VERSIONS = range(11)
TWO = (("range", subscription(ORDERS)), ("roundrobin", subscription(ORDERS)))
OWT = tuple(reversed(TWO))


def share(leader: Voice, follower: Voice) -> None:
    """Both have joined: the follower waits until the leader has assigned."""
    follower.say_sync()
    leader.talk.is_silent(follower.name)
    leader.sync((leader.id, b"mine"), (follower.id, b"yours"))
    follower.hear_sync()


def pair(talk: Talk, versions: Versions, *instances: str, rebalance: int = 5_000) -> tuple[Voice, Voice]:
    """Two in a stable group; the first leads."""
    names = [*instances, None, None][:2]
    first, second = (Voice(talk, who, talk.group(), name, versions) for who, name in zip("ab", names, strict=True))
    first.enter(rebalance=rebalance)
    second.say_join_with_id(rebalance=rebalance)
    first.heartbeat_until(ErrorCode.rebalance_in_progress)
    first.join(rebalance=rebalance)
    second.hear_join()
    share(first, second)
    return first, second


@conversation(ALL_VERSIONS)
def a_life_alone(talk: Talk, versions: Versions) -> None:
    one, admin = Voice(talk, "a", talk.group(), None, versions), Admin(talk, talk.group(), versions)
    admin.describe()
    admin.list()
    one.join()
    admin.describe()
    admin.list()
    if one.versions.join >= 4:
        one.join()
    admin.describe()
    one.commit()
    one.heartbeat()
    one.sync((one.id, b"all"))
    admin.describe(operations=True)
    admin.list()
    one.heartbeat()
    one.commit(7)
    one.sync((one.id, b"something else"))
    admin.delete()
    admin.fetch({ORDERS: [0]})
    one.leave()
    admin.describe()
    admin.list()
    one.heartbeat()
    one.sync()
    one.commit()
    one.leave()
    admin.fetch({ORDERS: [0]})
    one.join()
    one.id = ""
    one.enter()
    one.leave()
    admin.delete()
    admin.describe()
    admin.fetch({ORDERS: [0]})


@conversation(ALL_VERSIONS)
def two_members(talk: Talk, versions: Versions) -> None:
    first, second = pair(talk, versions)
    admin = Admin(talk, talk.group(), versions)
    admin.describe()
    first.heartbeat()
    second.heartbeat()
    second.join()  # a follower that repeats itself disturbs nobody
    first.heartbeat()
    first.say_join()  # the leader may have it all shared out anew
    second.heartbeat_until(ErrorCode.rebalance_in_progress)
    admin.describe()
    talk.is_silent("a")
    second.commit()
    second.sync()
    second.join()
    first.hear_join()
    admin.describe()
    first.commit()
    share(first, second)
    first.leave()
    second.heartbeat_until(ErrorCode.rebalance_in_progress)
    second.join()
    second.sync((second.id, b"all"))
    second.leave()


@conversation(ALL_VERSIONS)
def what_a_member_can_get_wrong(talk: Talk, versions: Versions) -> None:
    one = Voice(talk, "a", talk.group(), None, versions)
    one.enter()
    for generation in (0, 2, -1, -2, 2**31 - 1):
        one.heartbeat(generation_id=generation)
        one.sync(generation_id=generation)
        one.commit(generation_id_or_member_epoch=generation)
    for member in ("", "stranger", one.id + "x"):
        one.heartbeat(member_id=member)
        one.sync(member_id=member)
        one.commit(member_id=member)
        one.commit(member_id=member, generation_id_or_member_epoch=-1)
    for instance in ("", "stranger"):
        one.heartbeat(group_instance_id=instance)
        one.sync(group_instance_id=instance)
        one.commit(group_instance_id=instance)
        one.commit(group_instance_id=instance, member_id="", generation_id_or_member_epoch=-1)
        one.leave((one.id, instance))
        one.leave(("", instance))
        one.say_join(group_instance_id=instance)
        talk.is_silent("a")
        talk.hang_up("a")
    for kind, name in (("consumer", "roundrobin"), ("connect", "range"), ("", ""), (None, None), ("consumer", None)):
        one.sync(protocol_type=kind, protocol_name=name)
    one.heartbeat()
    for group in ("", talk.group("another")):
        one.heartbeat(group_id=group)
        one.sync(group_id=group)
        one.commit(group_id=group)
        one.leave(group_id=group)
        one.join(group_id=group)
    one.leave(("stranger", None), member_id="stranger")
    one.leave(("", None), member_id="")


@conversation(ALL_VERSIONS)
def joins_that_are_refused(talk: Talk, versions: Versions) -> None:
    one = Voice(talk, "a", talk.group(), None, versions)
    for session in (299, 0, -1, 60_001, 2**31 - 1):
        one.join(session=session)
    one.join(member_id="stranger")
    one.join(group_id="")
    one.join(group_id="", session=0)
    Admin(talk, talk.group(), versions).describe()
    for at, (kind, protocols) in enumerate((("", RANGE), ("consumer", ()), ("", ()))):
        group = talk.group(f"new {at}")
        one.join(protocols, protocol_type=kind, group_id=group)
        admin = Admin(talk, group, versions)
        admin.describe()
        admin.list()
        admin.delete()
    one.enter()
    other = Voice(talk, "b", talk.group(), None, versions)
    other.join((("roundrobin", b""),))
    other.join(protocol_type="connect")
    other.join(protocol_type="")
    other.join(())
    other.join(member_id="stranger")
    other.join(session=0)
    one.heartbeat()
    one.join((("roundrobin", b""),))
    one.join(protocol_type="connect")
    one.heartbeat()
    one.leave()
    one.id = ""
    one.join_with_id((("default", b"x"),), protocol_type="connect")
    one.sync((one.id, b"all"), protocol_type="connect", protocol_name="default")
    Admin(talk, talk.group(), versions).describe()


@conversation((0, 3, 4, 9))
def what_most_prefer_is_chosen(talk: Talk, versions: Versions) -> None:
    voices = [Voice(talk, who, talk.group(), None, versions) for who in "abc"]
    first, second, third = voices
    first.join_with_id(TWO)
    for voice in (second, third):
        voice.say_join_with_id(OWT)
        first.heartbeat_until(ErrorCode.rebalance_in_progress)
        voice.talk.is_silent(voice.name)
    first.join(TWO)
    second.hear_join()
    third.hear_join()
    for voice in (second, third):
        voice.say_sync(protocol_name="roundrobin")
    first.sync((second.id, b"1"), (third.id, b"2"), ("stranger", b"3"), protocol_name="roundrobin")
    second.hear_sync()
    third.hear_sync()
    Admin(talk, talk.group(), versions).describe()


@conversation((0, 4, 9))
def a_protocol_that_all_know_is_chosen(talk: Talk, versions: Versions) -> None:
    first, second = (Voice(talk, who, talk.group(), None, versions) for who in "ab")
    first.join_with_id((("x", b"1"), ("y", b"2"), ("range", b"3")))
    second.say_join_with_id((("z", b"4"), ("range", b"5")))
    first.heartbeat_until(ErrorCode.rebalance_in_progress)
    first.join((("x", b"1"), ("y", b"2"), ("range", b"3")))
    second.hear_join()
    share(first, second)
    Admin(talk, talk.group(), versions).describe()
    second.join((("z", b"4"), ("range", b"5")))


@conversation((0, 4, 9))
def who_changes_what_it_wants_has_all_gather(talk: Talk, versions: Versions) -> None:
    first, second = pair(talk, versions)
    changed = (("range", subscription(ORDERS, OTHER)),)
    second.say_join(changed)
    first.heartbeat_until(ErrorCode.rebalance_in_progress)
    first.join()
    second.hear_join()
    second.join(changed)  # as before: it has missed the answer
    first.join()
    second.say_join()
    talk.is_silent("b")
    first.heartbeat()
    first.sync((first.id, b"late"), (second.id, b"late"))
    first.join()
    second.hear_join()
    share(first, second)


@conversation((1, 4, 9))
def one_who_does_not_come_back_is_dropped(talk: Talk, versions: Versions) -> None:
    first, second = pair(talk, versions, rebalance=500)
    first.say_join(rebalance=500)
    first.hear_join()
    second.heartbeat()
    second.join(rebalance=500)
    first.sync((first.id, b"all"))
    Admin(talk, talk.group(), versions).describe()


@conversation((0, 4, 9))
def one_who_is_not_heard_of_is_dropped(talk: Talk, versions: Versions) -> None:
    first, second = Voice(talk, "a", talk.group(), None, versions), Voice(talk, "b", talk.group(), None, versions)
    first.enter()
    second.say_join_with_id(session=400)
    first.heartbeat_until(ErrorCode.rebalance_in_progress)
    first.join()
    second.hear_join()
    share(first, second)
    first.heartbeat_until(ErrorCode.rebalance_in_progress)
    second.heartbeat()
    second.commit()
    first.join()
    first.sync((first.id, b"all"))


@conversation((1, 4, 9))
def a_leader_that_never_assigns(talk: Talk, versions: Versions) -> None:
    one, admin = Voice(talk, "a", talk.group(), None, versions), Admin(talk, talk.group(), versions)
    one.join_with_id(rebalance=300)
    admin.describe()
    admin.describe_until("Empty")
    one.heartbeat()
    one.join()
    admin.describe()


@conversation((0, 4, 9))
def a_full_group(talk: Talk, versions: Versions) -> None:
    """`group.max.size` is 4."""
    voices = [Voice(talk, who, talk.group(), None, versions) for who in "abcde"]
    first, *others, last = voices
    first.enter()
    for voice in others:
        voice.say_join_with_id()
        talk.is_silent(voice.name)
    first.join()
    for voice in others:
        voice.hear_join()
        voice.say_sync()
    first.sync(*((voice.id, voice.name.encode()) for voice in voices[:-1]))
    for voice in others:
        voice.hear_sync()
    last.join()
    last.join(member_id="stranger")
    others[0].join()
    others[0].leave()
    last.id = ""
    last.say_join_with_id()
    talk.is_silent("e")
    for voice in (first, *others[1:]):
        voice.say_join()
    for voice in (first, *others[1:], last):
        voice.hear_join()


@conversation((4, 5, 9))
def ids_that_were_given_out(talk: Talk, versions: Versions) -> None:
    one, admin = Voice(talk, "a", talk.group(), None, versions), Admin(talk, talk.group(), versions)
    one.join(session=300)
    admin.describe()
    one.heartbeat()
    one.sync()
    one.commit()
    one.commit(generation_id_or_member_epoch=-1)
    one.leave()
    one.leave()
    one.join()
    one.id = ""
    one.join()
    one.join((("roundrobin", b""), ("x", b"")))
    admin.describe()
    other, known = Voice(talk, "b", talk.group(), None, versions), (("roundrobin", b""), ("y", b""))
    other.join(known, session=300)
    one.say_join(known)
    talk.is_silent("a")  # until the other id has run out
    one.hear_join()
    other.join(known)
    late = Voice(talk, "c", talk.group("late"), None, versions)
    late.join()
    Admin(talk, talk.group("late"), versions).delete()
    late.join()


@conversation((5, 9))
def an_id_that_was_given_out_and_then_has_an_instance(talk: Talk, versions: Versions) -> None:
    one = Voice(talk, "a", talk.group(), None, versions)
    one.join()
    one.instance = "i"
    one.join()
    one.heartbeat()
    one.instance = None
    one.heartbeat()
    Admin(talk, talk.group(), versions).describe()


@conversation((0, 5))
def garbage_where_subscriptions_should_be(talk: Talk, versions: Versions) -> None:
    right = subscription(ORDERS)
    wrong = (b"", b"\x00", b"\xff\xff" + right[2:], b"\x00\x09" + right[2:], right[:-1], right[:-4], right + b"x",
             subscription())  # fmt: skip
    for at, data in enumerate(wrong):
        one, admin = Voice(talk, "a", talk.group(f"{at}"), None, versions), Admin(talk, talk.group(f"{at}"), versions)
        one.enter((("range", data),))
        admin.describe()
        one.commit()
        admin.delete_offsets({ORDERS: [0], OTHER: [0]})
        one.leave()


@conversation((3, 4, 5))
def many_leave_at_once(talk: Talk, versions: Versions) -> None:
    first, second = pair(talk, versions)
    admin = Voice(talk, "admin", talk.group(), None, versions)
    admin.leave(("stranger", None), (second.id, None), (second.id, None), ("", "nobody"), ("", None))
    first.heartbeat_until(ErrorCode.rebalance_in_progress)
    second.heartbeat()
    talk.ask("admin", 13, versions.leave, group_id=talk.group(), member_id="", members=[])
    admin.leave((first.id, None), (first.id, None))
    Admin(talk, talk.group(), versions).describe()


@conversation((4, 9))
def a_group_that_changes_while_it_gathers(talk: Talk, versions: Versions) -> None:
    """One who waits for others leaves; then one who is waited for does."""
    first, second = pair(talk, versions)
    third = Voice(talk, "c", talk.group(), None, versions)
    third.say_join_with_id()
    talk.is_silent("c")
    Voice(talk, "admin", talk.group(), None, versions).leave((third.id, None), member_id=third.id)
    third.hear_join()
    Admin(talk, talk.group(), versions).describe()
    first.say_join()
    talk.is_silent("a")
    second.leave()
    first.hear_join()
