"""Offsets: committed by members and by nobody's, fetched, deleted."""

from __future__ import annotations

from typing import Any

from tests.corpus.conversations.registry import conversation
from tests.corpus.conversations.talk import Talk
from tests.corpus.conversations.voices import ORDERS, OTHER, Admin, Versions, Voice, ms, subscription

FROM_TWO = range(2, 11)
FROM_ONE = range(1, 11)


def _row(partition: int, offset: int = 1, metadata: str | None = "", epoch: int = -1) -> dict[str, Any]:
    return {
        "partition_index": partition, "committed_offset": offset, "committed_metadata": metadata,
        "committed_leader_epoch": epoch,
    }  # fmt: skip


@conversation(FROM_TWO)
def commits_without_a_group(talk: Talk, versions: Versions) -> None:
    one, admin = Voice(talk, "a", talk.group(), None, versions), Admin(talk, talk.group(), versions)
    for generation in (0, 1, 2**31 - 1, -2):
        one.commit(generation_id_or_member_epoch=generation)
        one.commit(generation_id_or_member_epoch=generation, member_id="m")
    one.commit(member_id="m", group_id=talk.group("with a member"))
    one.commit(group_instance_id="i", group_id=talk.group("with an instance"))
    one.commit(3, epoch=4, metadata="so far")
    admin.describe()
    admin.list()
    one.commit(4, 1, metadata=None)
    one.commit(5, 2, metadata="x" * 100)
    one.commit(6, 2, metadata="x" * 101)
    one.commit(7, 2, metadata="ž" * 100)
    one.commit(7, 2, metadata="\U0001f600" * 50)
    one.commit(8, 2, metadata="\U0001f600" * 51)
    one.commit(-1)
    one.commit(-2)
    one.commit(2**63 - 1, 1)
    one.commit(1, 1, epoch=-2)
    one.commit(1, 7)
    one.commit(1, -1)
    one.commit(1, 0, "absent")
    one.commit(1, 0, "")
    one.commit_rows({ORDERS: [_row(0, 9), _row(7), _row(1, 10, "x" * 101)], OTHER: [_row(0, 11)], "absent": [_row(0)]})
    one.commit_rows({ORDERS: [_row(0, 1), _row(0, 2)]})
    one.commit_rows({ORDERS: []})
    one.commit_rows({})
    for group in (talk.group(), talk.group("with a member"), talk.group("with an instance")):
        Admin(talk, group, versions).fetch({ORDERS: [0, 1, 2], OTHER: [0]})
    admin.delete_offsets({ORDERS: [0, 1, 2, 7], OTHER: [0], "absent": [0]})
    admin.fetch({ORDERS: [0, 1, 2], OTHER: [0]})
    admin.describe()
    admin.delete()
    admin.delete()


@conversation(FROM_ONE)
def fetches(talk: Talk, versions: Versions) -> None:
    one, admin = Voice(talk, "a", talk.group(), None, versions), Admin(talk, talk.group(), versions)
    admin.fetch({ORDERS: [0]})
    if versions.fetch >= 2:
        admin.fetch()
    one.commit_rows({ORDERS: [_row(0, 3, "m", 5), _row(2, 4, None)], OTHER: [_row(0, 5)]})
    if versions.fetch >= 2:
        admin.fetch()
    admin.fetch({})
    admin.fetch({ORDERS: []})
    admin.fetch({ORDERS: [2, 0, 1, 7, -1, 0]})
    admin.fetch({OTHER: [0], ORDERS: [0]})
    admin.fetch({"absent": [0]})
    admin.fetch({"": [0]})
    if versions.fetch >= 7:
        admin.fetch(stable=True)
        admin.fetch({ORDERS: [0, 1]}, stable=True)
    if versions.fetch >= 8:
        admin.fetch({ORDERS: [0, 1]}, talk.group(), talk.group("absent"), talk.group())
        admin.fetch(None, talk.group(), talk.group("absent"))
        admin.fetch(None, talk.group(), talk.group("absent"), stable=True)
        talk.ask("admin", 9, versions.fetch, groups=[], require_stable=False)
    if versions.fetch >= 9:
        for member, epoch in (("m", 0), ("m", -1), ("", 0), (None, 3)):
            admin.fetch({ORDERS: [0]}, member_id=member, member_epoch=epoch)
            admin.fetch({ORDERS: [0]}, talk.group("absent"), member_id=member, member_epoch=epoch)


@conversation((2, 3, 4))
def how_long_clients_of_old_want_them_kept(talk: Talk, versions: Versions) -> None:
    one, admin = Voice(talk, "a", talk.group(), None, versions), Admin(talk, talk.group(), versions)
    for at, retention in enumerate((-1, 0, 1, -2, 2**62)):
        one.commit(at, retention_time=ms(min(retention, 2**45)))
        admin.fetch({ORDERS: [0]})


@conversation((2, 6, 7, 9, 10))
def commits_of_members(talk: Talk, versions: Versions) -> None:
    one, admin = Voice(talk, "a", talk.group(), None, versions), Admin(talk, talk.group(), versions)
    one.commit(1)  # the group is there before its first member
    one.join_with_id()
    one.commit(2)  # not assigned yet
    one.commit(2, generation_id_or_member_epoch=-1, member_id="")
    one.sync((one.id, b"all"))
    one.commit(3)
    one.commit(4, generation_id_or_member_epoch=-1)
    one.commit(4, generation_id_or_member_epoch=-1, member_id="")
    one.commit(4, generation_id_or_member_epoch=0)
    one.commit(4, 1, metadata="x" * 101)
    one.commit(4, 7)
    one.commit_rows({"absent": [_row(0)]}, generation_id_or_member_epoch=0)
    one.commit_rows({ORDERS: []}, generation_id_or_member_epoch=0)
    admin.fetch({ORDERS: [0, 1]})
    admin.delete_offsets({ORDERS: [0], OTHER: [0]})
    admin.delete_offsets({ORDERS: [7]})
    one.leave()
    one.commit(5)
    one.commit(6, member_id="", generation_id_or_member_epoch=1)
    one.commit(7, member_id="stranger", generation_id_or_member_epoch=-1)
    one.commit(8, member_id="", generation_id_or_member_epoch=-1)
    admin.fetch({ORDERS: [0, 1]})


@conversation()
def offsets_are_deleted(talk: Talk, versions: Versions) -> None:
    one, admin = Voice(talk, "a", talk.group(), None, versions), Admin(talk, talk.group(), versions)
    everything = {ORDERS: [0, 1, 2], OTHER: [0]}
    admin.delete_offsets(everything)
    admin.delete_offsets({})
    admin.delete_offsets({"absent": [0]})
    one.commit_rows({ORDERS: [_row(0), _row(1)], OTHER: [_row(0)]})
    admin.delete_offsets({})
    admin.delete_offsets({ORDERS: []})
    admin.delete_offsets({ORDERS: [1, 1, 2]})
    admin.fetch()
    one.enter((("range", subscription(OTHER)),))
    admin.delete_offsets(everything)
    admin.fetch()
    other = Voice(talk, "b", talk.group("connect"), None, versions)
    other.commit()
    other.enter(protocol_type="connect")
    Admin(talk, talk.group("connect"), versions).delete_offsets(everything)
    Admin(talk, talk.group("connect"), versions).fetch()
    one.leave()
    admin.delete_offsets(everything)
    admin.fetch()
    admin.describe()


@conversation(FROM_ONE)
def the_group_without_a_name(talk: Talk, versions: Versions) -> None:
    """No member can be in it, and offsets can be committed for it. There is only one for all conversations."""
    one, admin = Voice(talk, "a", "", None, versions), Admin(talk, "", versions)
    for _ in range(2):
        admin.describe()
        admin.fetch({ORDERS: [0]})
        admin.delete_offsets({ORDERS: [1]})
        admin.delete_offsets({})
        one.heartbeat()
        one.sync()
        one.leave()
        one.join()
        one.commit(1, generation_id_or_member_epoch=0)
        one.commit(2)
    admin.describe(operations=True)
    if versions.fetch >= 8:
        admin.fetch(None, "", talk.group("absent"))
    admin.delete("", talk.group("absent"))
    admin.fetch({ORDERS: [0]})
