"""Groups of the consumer protocol (KIP-848): their members, and classic ones beside them."""

from __future__ import annotations

from uuid import UUID

from tests.corpus.conversations.modern_voices import LEAVES_FOR_A_WHILE, Modern
from tests.corpus.conversations.registry import conversation
from tests.corpus.conversations.talk import Talk
from tests.corpus.conversations.voices import ORDERS, OTHER, Admin, Versions, Voice, assignment, ms, subscription

from ottla.model.errors import ErrorCode

ANYTHING = UUID(int=99)


@conversation()
def a_modern_life_alone(talk: Talk, versions: Versions) -> None:
    one, admin = Modern(talk, "a", talk.group()), Admin(talk, talk.group())
    one.describe()
    one.describe(version=0)
    one.join()
    one.settle(3)
    one.describe()
    one.describe(version=0)
    admin.list()
    admin.list(["Stable"])
    admin.list((), ["consumer"])
    admin.list((), ["classic"])
    admin.describe()
    admin.delete()
    admin.delete_offsets({ORDERS: [0], OTHER: [0]})
    one.commit()
    for version in (2, 8, 9, 10):
        one.commit(version)
    one.fetch()
    one.fetch(10)
    one.heartbeat(subscribed_topic_names=[ORDERS, OTHER])
    one.settle(4)
    one.describe()
    one.leave()
    one.heartbeat()
    one.leave()
    one.commit()
    one.describe()
    admin.list()
    admin.delete_offsets({ORDERS: [1], OTHER: [0]})
    admin.fetch()
    admin.delete()
    one.describe()


@conversation()
def a_modern_member_of_the_first_version(talk: Talk, versions: Versions) -> None:
    one = Modern(talk, "a", talk.group(), version=0)
    one.heartbeat(member_epoch=0, member_id="chosen", subscribed_topic_names=[ORDERS], rebalance_timeout=ms(5000),
                  topic_partitions=[])  # fmt: skip
    one.settle(3)
    one.leave()
    one.heartbeat(member_epoch=1, member_id="")
    one.heartbeat(member_epoch=-1, member_id="")


@conversation()
def two_modern_members(talk: Talk, versions: Versions) -> None:
    first, second = Modern(talk, "a", talk.group()), Modern(talk, "b", talk.group())
    first.join()
    first.settle(3)
    second.join()
    first.heartbeat_until(lambda answer: answer.assignment is not None)
    first.describe()
    second.heartbeat(topic_partitions=[])
    second.commit()
    first.tell()
    second.heartbeat_until(
        lambda answer: answer.assignment is not None and bool(answer.assignment.topic_partitions), topic_partitions=[]
    )
    second.tell()
    first.describe()
    first.heartbeat(topic_partitions=[])  # it has lost what it was given
    first.leave()
    second.settle(3)
    second.describe()


@conversation()
def what_a_modern_member_can_get_wrong(talk: Talk, versions: Versions) -> None:
    one = Modern(talk, "a", talk.group())
    one.heartbeat()
    one.heartbeat(member_epoch=1)
    one.leave()
    one.leave(LEAVES_FOR_A_WHILE)
    one.heartbeat(member_epoch=-3)
    one.join(None)
    one.join([])
    one.leave()
    one.epoch = 0
    one.join(group_id="")
    one.join(group_id=" ")
    one.join(member_id="")
    one.join(rack_id="")
    one.join(instance_id="")
    one.join(server_assignor="nonsense")
    one.join(server_assignor="")
    one.join(rebalance_timeout=ms(-1))
    one.join(rebalance_timeout=ms(0), group_id=talk.group("no time"))
    one.join(topic_partitions=[{"topic_id": talk.topic_ids[ORDERS], "partitions": [0]}])
    one.join(topic_partitions=None)
    one.join(None, subscribed_topic_regex="(")
    one.join(None, subscribed_topic_regex="(?!a)")
    one.join(["absent"], group_id=talk.group("absent"))
    one.epoch = 0
    one.join()
    one.settle(3)
    one.join()  # again, as after a lost answer
    for epoch in (one.epoch + 1, one.epoch - 1, 100, 2**31 - 1):
        one.heartbeat(member_epoch=epoch)
    one.heartbeat(member_epoch=one.epoch - 1, topic_partitions=one.places())
    one.heartbeat(member_epoch=one.epoch - 1, topic_partitions=[{"topic_id": ANYTHING, "partitions": [0]}])
    one.heartbeat(member_id="stranger")
    one.heartbeat(instance_id="stranger")
    one.heartbeat(group_id=talk.group("another"))
    one.heartbeat(topic_partitions=[{"topic_id": ANYTHING, "partitions": [0, 1]}])
    one.commit(generation_id_or_member_epoch=one.epoch - 1)
    one.commit(generation_id_or_member_epoch=one.epoch + 1)
    one.commit(8, generation_id_or_member_epoch=one.epoch - 1)
    one.commit(member_id="stranger")
    one.commit(member_id="", generation_id_or_member_epoch=-1)
    one.commit(generation_id_or_member_epoch=-1)
    one.fetch(member_epoch=one.epoch - 1)
    one.fetch(member_epoch=one.epoch + 1)
    one.fetch(member_id="stranger")
    one.fetch(member_id=None, member_epoch=-1)
    one.fetch(member_id="", member_epoch=0)
    Voice(talk, "b", talk.group()).heartbeat(member_id=one.id, generation_id=one.epoch)
    Voice(talk, "b", talk.group()).leave(("stranger", None))
    one.describe("", talk.group("none"), talk.group())


@conversation()
def a_full_modern_group(talk: Talk, versions: Versions) -> None:
    """`group.consumer.max.size` is 4."""
    for name in "abcde":
        Modern(talk, name, talk.group()).join()


@conversation()
def modern_static_members(talk: Talk, versions: Versions) -> None:
    one = Modern(talk, "a", talk.group(), "i")
    one.join()
    one.settle(3)
    again = Modern(talk, "a again", talk.group(), "i")
    again.join()
    again.heartbeat(member_epoch=one.epoch)
    one.heartbeat()
    one.leave(LEAVES_FOR_A_WHILE)
    one.describe()
    one.commit()
    one.heartbeat()
    again.join()
    again.settle(3)
    one.epoch = again.epoch
    one.heartbeat()
    one.commit()
    one.leave()
    one.leave(LEAVES_FOR_A_WHILE)
    again.heartbeat()
    again.describe()
    Voice(talk, "admin", talk.group()).leave(("", "i"))
    again.heartbeat()
    again.describe()


@conversation()
def patterns(talk: Talk, versions: Versions) -> None:
    one = Modern(talk, "a", talk.group())
    one.join(None, subscribed_topic_regex="ord.*")
    one.settle(3)
    one.describe()
    one.heartbeat(subscribed_topic_regex="oth(er)?")
    one.settle(1)
    one.heartbeat(subscribed_topic_names=[ORDERS])
    one.settle(4)
    one.heartbeat(subscribed_topic_regex="")
    one.settle(3)
    one.describe()


@conversation()
def the_range_assignor(talk: Talk, versions: Versions) -> None:
    one = Modern(talk, "a", talk.group())
    one.join(server_assignor="range")
    one.settle(3)
    one.describe()
    one.heartbeat(server_assignor="uniform")
    one.heartbeat_until(lambda answer: answer.member_epoch > 1)
    one.describe()


@conversation((0, 4, 9))
def a_classic_member_comes_to_a_modern_group(talk: Talk, versions: Versions) -> None:
    one, other = Modern(talk, "a", talk.group()), Voice(talk, "b", talk.group(), None, versions)
    one.join()
    one.settle(3)
    other.join((("range", b"garbage"),))
    other.join(protocol_type="connect")
    other.join(())
    other.join_with_id()
    one.describe()
    Admin(talk, talk.group(), versions).describe()
    other.heartbeat()
    other.sync()


@conversation((1, 4, 9))
def a_modern_member_comes_to_a_classic_group(talk: Talk, versions: Versions) -> None:
    one, other = Voice(talk, "a", talk.group(), None, versions), Modern(talk, "b", talk.group())
    admin = Admin(talk, talk.group(), versions)
    one.enter(share=assignment(ORDERS, 0, 1, 2))
    one.commit()
    other.join()
    other.describe()
    admin.list()
    admin.describe()
    one.heartbeat_until(ErrorCode.rebalance_in_progress)
    one.commit()
    other.tell()
    one.join()
    one.sync(protocol_name="range")
    one.heartbeat()
    one.join((("range", subscription(ORDERS)),))
    one.sync()
    one.heartbeat()
    other.describe()
    other.leave()  # the last modern one: the group is classic again
    admin.list()
    admin.describe()
    one.heartbeat_until(ErrorCode.rebalance_in_progress)
    one.join()
    one.sync((one.id, assignment(ORDERS, 0, 1, 2)))
    one.leave()
    admin.list()


@conversation()
def a_modern_member_takes_over_an_empty_group(talk: Talk, versions: Versions) -> None:
    one, other = Voice(talk, "a", talk.group()), Modern(talk, "b", talk.group())
    one.enter()
    one.commit()
    one.leave()
    other.join()
    other.settle(3)
    other.fetch()
    other.leave()
    Admin(talk, talk.group()).list()
    one.id = ""
    one.enter()
    Admin(talk, talk.group()).list()


@conversation()
def a_modern_member_where_it_cannot_be(talk: Talk, versions: Versions) -> None:
    connect, other = Voice(talk, "a", talk.group("connect")), Modern(talk, "b", talk.group("connect"))
    connect.enter(protocol_type="connect")
    other.join()
    other.describe()
    garbage, another = Voice(talk, "e", talk.group("garbage")), Modern(talk, "f", talk.group("garbage"))
    garbage.enter()
    another.join()
    garbage.heartbeat()
    other.heartbeat(member_epoch=1)
    Voice(talk, "c", talk.group("simple")).commit()
    taking = Modern(talk, "d", talk.group("simple"))
    taking.describe()
    taking.join()
    taking.settle(3)
    taking.fetch()
    Admin(talk, talk.group("simple")).list()
