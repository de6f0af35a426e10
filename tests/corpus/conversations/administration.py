"""ListGroups, DescribeGroups, DeleteGroups."""

from __future__ import annotations

from tests.corpus.conversations.registry import conversation
from tests.corpus.conversations.talk import Talk
from tests.corpus.conversations.voices import Admin, Versions, Voice

from ottla.model.errors import ErrorCode


@conversation(range(6))
def groups_are_listed(talk: Talk, versions: Versions) -> None:
    admin = Admin(talk, talk.group(), versions)
    admin.list()
    Voice(talk, "a", talk.group("simple"), None).commit()
    Voice(talk, "b", talk.group("stable"), None).enter()
    Voice(talk, "c", talk.group("completing"), None).join_with_id()
    Voice(talk, "d", talk.group("given"), None).join()
    left = Voice(talk, "e", talk.group("left"), None)
    left.enter()
    left.leave()
    Voice(talk, "f", talk.group("connect"), None).enter(protocol_type="connect")
    first, second = Voice(talk, "g", talk.group("preparing"), None), Voice(talk, "h", talk.group("preparing"), None)
    first.enter()
    second.say_join_with_id()
    first.heartbeat_until(ErrorCode.rebalance_in_progress)
    admin.list()
    for states in (["Stable"], ["stable"], ["STABLE", "Empty"], ["PreparingRebalance"], ["completingrebalance"],
                   ["Dead"], ["nonsense"], [""], [" Stable "], ["Assigning"], ["Unknown"]):  # fmt: skip
        admin.list(states)
    for types in (["classic"], ["Classic"], ["CLASSIC", "consumer"], ["consumer"], ["share"], ["streams"],
                  ["nonsense"], [""], ["unknown"], [" classic"]):  # fmt: skip
        admin.list((), types)
    admin.list(["Stable"], ["classic"])
    admin.list(["Stable"], ["consumer"])
    admin.list(["Stable"], ["nonsense"])


@conversation(range(7))
def groups_are_described(talk: Talk, versions: Versions) -> None:
    admin = Admin(talk, talk.group(), versions)
    Voice(talk, "a", talk.group("simple"), None).commit()
    Voice(talk, "b", talk.group("given"), None).join()
    left = Voice(talk, "c", talk.group("left"), None)
    left.enter()
    left.leave()
    Voice(talk, "d", talk.group("connect"), None).enter((("default", b"x"),), protocol_type="connect")
    for name in ("absent", "simple", "given", "left", "connect"):
        admin.describe(talk.group(name))
        admin.describe(talk.group(name), operations=True)
    admin.describe(talk.group("left"), talk.group("absent"), talk.group("left"))
    talk.ask("admin", 15, versions.describe, groups=[], include_authorized_operations=False)


@conversation(range(3))
def groups_are_deleted(talk: Talk, versions: Versions) -> None:
    admin = Admin(talk, talk.group(), versions)
    Voice(talk, "a", talk.group("simple"), None).commit()
    stable = Voice(talk, "b", talk.group("stable"), None)
    stable.enter()
    Voice(talk, "c", talk.group("completing"), None).join_with_id()
    Voice(talk, "d", talk.group("given"), None).join()
    left = Voice(talk, "e", talk.group("left"), None)
    left.enter()
    left.commit()
    left.leave()
    admin.delete(talk.group("absent"))
    admin.delete(*(talk.group(name) for name in ("simple", "stable", "completing", "given", "left", "left")))
    admin.delete(*(talk.group(name) for name in ("simple", "left")))
    talk.ask("admin", 42, versions.delete, groups_names=[])
    admin.fetch(None, talk.group("simple"), talk.group("left"))
    left.heartbeat()
    left.id = ""
    left.enter()
    admin.describe(talk.group("left"))
