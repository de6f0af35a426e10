"""Requests that come while markers of the transaction before are still to be written.

The answers are Apache Kafka 4.3's: there another broker, which led a partition of the transaction, stood still.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.broker.apis.transacting import BUSY, Place, Producer

from ottla.testing.node import RunningNode, running_node

NOBODY = [BUSY, "nobody", -1]


@contextmanager
def standing_still(node: RunningNode, place: Place, partition: int) -> Iterator[None]:
    """As if whoever leads a partition did not answer."""
    found = node.node.replicas.by_name[place.topic, partition]
    node.on_loop(lambda: setattr(found, "is_leader", False))
    try:
        yield
    finally:
        node.on_loop(lambda: setattr(found, "is_leader", True))


def test_whoever_asks_is_to_come_again(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        place = Place(node.address, "story")
        who = place.producer(place.story)
        place.produce(who, partition=0)
        place.produce(who, partition=1)
        with standing_still(node, place, 1):
            assert place.end(who, True) == ["none", who.id, 1]
            told = who.with_epoch(1)
            everyone = [told, who, who.with_epoch(7), Producer(place.story, "stranger", 0)]
            for each in everyone:
                for is_commit in (True, False):
                    assert place.end(each, is_commit) == NOBODY
                for version in (1, 3):
                    assert place.add(each, 0, version=version) == [BUSY]
                assert place.tell(each, 0) == [BUSY]
                assert place.add_offsets(each) == BUSY
                assert place.commit_offsets(each, 3) == [BUSY]
                assert place.init(place.story, expected=each) == NOBODY
            assert place.init(place.story) == NOBODY
            # the first version, and who only verifies, are told first who they are
            assert [place.end(told, is_commit, 3) for is_commit in (True, False)] == [[BUSY], [BUSY]]
            assert place.end(who, True, 3) == ["producer_fenced"]
            assert place.tell(told, 0, verify_only=True) == [BUSY]
            assert place.tell(who, 0, verify_only=True) == ["producer_fenced"]
            described = place.describe(place.story)
            assert (described["state"], described["topics"]) == ("PrepareCommit", [[place.topic, [1]]])
        assert place.settled(lambda: place.end(told, False)) == ["none", who.id, 2], "it was not fenced"
        assert place.at_rest(place.story)["topics"] == []
