"""What is written is read, by those who come later too."""

from __future__ import annotations

import json

import pytest
from tests.coordinator.group.history.given import World

from ottla.coordinator.group.history.coding import MEMBERS, Unreadable, all_keys, decode, encode, entry_key, read_key
from ottla.coordinator.group.history.entries import KEPT_ENTRIES, Roll


def test_what_is_written_is_read() -> None:
    world = World(1)
    clients = world.group(3)
    clients[0].kill()
    clients[1].pause()
    world.run(30)
    clients[1].resume()
    world.run(30)
    world.write()
    values = [value for value in world.records.values() if value is not None]
    assert len(values) > 3
    for value in values:
        assert encode(decode(value)) == value
        assert json.loads(value)["v"] == 1


@pytest.mark.parametrize("group", ["orders", "", "with, \"quotes\" and ['lists']", "größe 😀", "\ud800"])
def test_keys_name_the_group_and_a_slot(group: str) -> None:
    assert read_key(entry_key(group, 5)) == (group, 5)
    assert read_key(entry_key(group, KEPT_ENTRIES + 5)) == (group, 5)
    assert read_key(all_keys(group, 1000)[-1]) == (group, MEMBERS)
    assert len(set(all_keys(group, 1000))) == KEPT_ENTRIES + 1
    assert len(set(all_keys(group, 2))) == 3


def test_fields_that_are_not_known_are_ignored() -> None:
    value = json.dumps({"v": 1, "kind": "members", "at": 7, "next_number": 3, "mood": "good"}).encode()
    assert decode(value) == Roll(7, 3)


@pytest.mark.parametrize(
    "value",
    [
        b"", b"{", b"[]", b"7", b'{"v":1}', b'{"v":2,"kind":"members","at":1,"next_number":1}',
        b'{"v":1,"kind":"poem"}', b'{"v":1,"kind":"members"}',
        b'{"v":1,"kind":"members","at":"yesterday","next_number":1}', b"\xff\xfe",
        b'{"v":1,"kind":"incident","number":1,"at":1,"change":{"at":1,"what":"danced"}}',
        b'{"v":1,"kind":"incident","number":1,"at":1,"change":[]}',
    ],
)  # fmt: skip
def test_what_is_not_of_the_history_is_told(value: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(value)


@pytest.mark.parametrize("key", [b"", b"orders", b"[1,2]", b'["orders"]', b'["orders",null]', b"\xff"])
def test_keys_of_others_are_told(key: bytes) -> None:
    with pytest.raises(Unreadable):
        read_key(key)
