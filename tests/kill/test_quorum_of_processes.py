"""Controllers that are killed and paused: the others elect another leader, and whoever comes back follows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kill.quorum_of_processes import Processes
from tests.waiting import at_best, attempts


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path)
    try:
        processes.start(*processes.ids)
        yield processes
    finally:
        processes.close()


def test_after_kill_9_of_the_leader_another_leads_in_a_fraction_of_a_second(three: Processes) -> None:
    """A closed connection and a refused dial tell the survivors: they wait for no timeout (which is 2 s)."""

    def taken() -> float:
        before = three.led(*three.ids)
        rest = [i for i in three.ids if i != before.leader_id]

        three.kill(before.leader_id)
        begun = time.monotonic()
        after = three.led(*rest, after_epoch=before.leader_epoch)
        elapsed = time.monotonic() - begun

        assert after.leader_id in rest
        assert after.high_watermark > before.high_watermark
        three.start(before.leader_id)
        return elapsed

    assert at_best(taken, below=1.5) < 1.5


def test_a_paused_leader_is_replaced_and_follows_when_it_wakes(three: Processes) -> None:
    before = three.led(*three.ids)
    rest = [i for i in three.ids if i != before.leader_id]

    three.pause(before.leader_id)
    after = three.led(*rest, after_epoch=before.leader_epoch)
    three.go_on(before.leader_id)

    assert after.leader_id in rest
    for _ in attempts():
        now = three.led(*three.ids)
        ends = {row.replica_id: row.log_end_offset for row in now.current_voters}
        if set(ends.values()) == {ends[now.leader_id]}:
            break
    assert now.leader_epoch >= after.leader_epoch


def test_all_killed_at_once_come_back_with_what_was_committed(three: Processes) -> None:
    before = three.led(*three.ids)
    for i in three.ids:
        three.kill(i)

    three.start(*three.ids)

    after = three.led(*three.ids)
    assert after.leader_epoch > before.leader_epoch
    assert after.high_watermark > before.high_watermark
