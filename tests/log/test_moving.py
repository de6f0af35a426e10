"""A log is cut at its end while it is moved to another log dir: the copy is of what is left, and of nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.log.given import PARTITION, TOPIC_ID, Machine, append, batch, config, everything

from ottla.log.log_dir import LogDir
from ottla.log.moving import LogMove, Moved
from ottla.log.partition_log import PartitionLog
from ottla.log.truncation import truncate_fully_and_start_at, truncate_to
from ottla.record.reader import read_records


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def moved(machine: Machine, log: PartitionLog, dirs: list[LogDir], meanwhile: Callable[[], None]) -> Moved:
    """`meanwhile` happens once, when the first piece is copied."""
    left = [meanwhile]

    async def pace(_: int) -> None:
        if left:
            left.pop()()

    async def tell() -> bool:
        return True

    async def run() -> Moved | None:
        return await LogMove(machine.env, log, dirs[0], dirs[1], pace).run(tell)

    done: Moved | None = machine.wait_for(run)
    assert done is not None
    return done


@pytest.mark.parametrize("segment_bytes", [1 << 20, 200])
@pytest.mark.parametrize("cut", ["to the middle", "fully"])
def test_a_log_that_is_cut_while_it_is_moved(machine: Machine, cut: str, segment_bytes: int) -> None:
    dirs = [machine.call(LogDir, machine.env, path) for path in ("/one", "/two")]
    log = machine.call(dirs[0].create, PARTITION, TOPIC_ID, config(segment_bytes=segment_bytes))
    for number in range(10):
        machine.call(append, log, batch(value=b"old %d" % number))

    def another_history() -> None:
        """Batches of the same size stand where the old ones stood."""
        if cut == "fully":
            truncate_fully_and_start_at(machine.env, log, 0)
        else:
            truncate_to(machine.env, log, 4)
        for number in range(log.end_offset, 12):
            append(log, batch(value=b"new %d" % number), epoch=1)

    done = moved(machine, log, dirs, another_history)

    kept = 0 if cut == "fully" else 4
    expected = [b"old %d" % number for number in range(kept)] + [b"new %d" % number for number in range(kept, 12)]
    batches = machine.call(everything, done.log)
    assert [record.value for data in batches for record in read_records(data)] == expected
    assert done.log.end_offset == 12 and dirs[1].logs[PARTITION] is done.log
