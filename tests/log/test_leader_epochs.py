"""Which epoch began where, and where each one ended, as Kafka's LeaderEpochFileCache has it."""

from collections.abc import Iterator

import pytest
from tests.log.given import FOLDER, NOW, Machine, append, batch, epochs_in

from ottla.log.epochs import EpochStart, LeaderEpochs
from ottla.record.batch import parse_header
from ottla.record.builder import build_batch
from ottla.record.records import Record

UNKNOWN = (-1, -1)
END = 100


def epochs(*starts: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([EpochStart(*start) for start in starts])


@pytest.mark.parametrize(
    ("known", "asked", "answer"),
    [
        ([], 0, UNKNOWN),
        ([], -1, UNKNOWN),
        ([(2, 6)], -1, UNKNOWN),
        ([(2, 6)], -2, (-2, 6)),  # only -1 stands for none
        ([(2, 6)], 2, (2, END)),  # the latest ends where the log ends
        ([(2, 6)], 3, UNKNOWN),  # later than the latest
        ([(2, 6)], 1, (1, 6)),  # older than all: it ended where our history begins
        ([(2, 6), (3, 8)], 2, (2, 8)),
        ([(2, 6), (3, 8)], 3, (3, END)),
        ([(2, 6), (3, 8)], 0, (0, 6)),
        ([(2, 6), (5, 8), (9, 12)], 3, (2, 8)),  # one that left nothing here: the one before it
        ([(2, 6), (5, 8), (9, 12)], 4, (2, 8)),
        ([(2, 6), (5, 8), (9, 12)], 5, (5, 12)),
        ([(2, 6), (5, 8), (9, 12)], 8, (5, 12)),
        ([(2, 6), (5, 8), (9, 12)], 9, (9, END)),
        ([(2, 6), (5, 8), (9, 12)], 10, UNKNOWN),
        ([(0, 0)], 0, (0, END)),
        ([(0, END)], 0, (0, END)),  # elected, nothing appended yet
    ],
)
def test_where_an_epoch_ends(known: list[tuple[int, int]], asked: int, answer: tuple[int, int]) -> None:
    assert epochs(*known).end_of(asked, END) == answer


@pytest.mark.parametrize(
    ("known", "new", "becomes"),
    [
        ([], (0, 0), [(0, 0)]),
        ([(0, 0)], (0, 5), [(0, 0)]),  # no news
        ([(0, 0)], (1, 5), [(0, 0), (1, 5)]),
        ([(0, 0), (1, 5)], (4, 5), [(0, 0), (4, 5)]),  # epoch 1 was never used
        ([(0, 0), (1, 5), (2, 9)], (3, 7), [(0, 0), (1, 5), (3, 7)]),
        ([(0, 0), (1, 5), (2, 9)], (1, 9), [(0, 0), (1, 9)]),
        ([(0, 0), (3, 5)], (3, 4), [(0, 0), (3, 4)]),  # it began earlier than was known
        ([(0, 0)], (-1, 5), [(0, 0)]),
    ],
)
def test_a_new_epoch_takes_the_place_of_what_it_contradicts(
    known: list[tuple[int, int]], new: tuple[int, int], becomes: list[tuple[int, int]]
) -> None:
    table = epochs(*known)
    assert table.assign(*new) == (becomes != known)
    assert table.starts == becomes


@pytest.mark.parametrize(
    ("end", "left"), [(0, []), (1, [(2, 0)]), (6, [(2, 0)]), (7, [(2, 0), (3, 6)]), (9, [(2, 0), (3, 6)]), (20, ...)]
)
def test_cut_at_the_end(end: int, left: object) -> None:
    table = epochs((2, 0), (3, 6), (4, 9))
    before = list(table.starts)
    expected = before if left is ... else left
    assert table.truncate_from_end(end) == (expected != before)
    assert table.starts == expected


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, [(2, 0), (3, 6), (4, 9)]),
        (5, [(2, 5), (3, 6), (4, 9)]),
        (6, [(3, 6), (4, 9)]),
        (8, [(3, 8), (4, 9)]),
        (9, [(4, 9)]),
        (50, [(4, 50)]),
    ],
)
def test_cut_at_the_start(start: int, left: list[tuple[int, int]]) -> None:
    table = epochs((2, 0), (3, 6), (4, 9))
    assert table.truncate_from_start(start) == (left != [(2, 0), (3, 6), (4, 9)])
    assert table.starts == left


def test_the_epoch_of_an_offset() -> None:
    table = epochs((2, 5), (3, 6), (7, 9))
    assert [table.epoch_at(offset) for offset in (4, 5, 6, 8, 9, 1000)] == [-1, 2, 3, 3, 7, 7]


class TestOnDisk:
    @pytest.fixture
    def machine(self) -> Iterator[Machine]:
        with Machine() as machine:
            yield machine

    def test_the_checkpoint_is_kafkas(self, machine: Machine) -> None:
        log = machine.open()
        for epoch in (0, 0, 3, 7):
            append(log, batch(2), epoch=epoch)
        assert machine.read(f"{FOLDER}/leader-epoch-checkpoint") == b"0\n3\n0 0\n3 4\n7 6\n"

    @pytest.mark.parametrize("recovery_point", range(0, 41, 3))
    def test_recovery_leaves_the_starts_of_epochs_alone(self, machine: Machine, recovery_point: int) -> None:
        """It begins in the middle of an epoch, whose first batch it does not see."""
        log = machine.open(index_interval_bytes=0, segment_bytes=900)
        for n in range(20):
            append(log, batch(2), epoch=n // 4)
        expected = list(log.epochs.starts)
        machine.flush(log)  # index entries are on disk, so that recovery begins in the middle of a segment
        machine.host.crash()
        log = machine.open(clean=False, recovery_point=recovery_point, settings=log.config)
        assert log.epochs.starts == expected == epochs_in(log)

    @pytest.mark.parametrize(
        "content", [b"", b"0\n", b"0\n2\n0 0\n", b"0\n5\n0 0\n3 1", b"1\n0\n", b"\0" * 20, b"0\n2\n5 0\n3 9\n"]
    )
    def test_a_damaged_checkpoint_is_made_again_from_the_log(self, machine: Machine, content: bytes) -> None:
        log = machine.open(segment_bytes=500)
        for n in range(12):
            append(log, batch(2), epoch=n // 3)
        expected = list(log.epochs.starts)
        log.stop()
        machine.overwrite(f"{FOLDER}/leader-epoch-checkpoint", content)
        assert machine.open(settings=log.config).epochs.starts == expected
        assert machine.read(f"{FOLDER}/leader-epoch-checkpoint") == b"0\n4\n0 0\n1 6\n2 12\n3 18\n"

    def test_so_is_a_missing_one(self, machine: Machine) -> None:
        log = machine.open()
        for n in range(12):
            append(log, batch(2), epoch=n // 3)
        log.stop()
        machine.disk.remove(f"{FOLDER}/leader-epoch-checkpoint")
        log = machine.open(settings=log.config)
        assert log.epochs.starts == epochs_in(log)

    @pytest.mark.parametrize(
        ("stored", "begins"),
        [
            pytest.param(b"0\n2\n0 0\n1 5\n", 5, id="the file knows"),
            pytest.param(b"0\n1\n0 0\n", 4, id="right after what is left"),
            pytest.param(b"0\n2\n0 0\n1 3\n", 4, id="a file of another history"),
        ],
    )
    def test_an_epoch_begins_before_what_compaction_has_left_of_it(
        self, machine: Machine, stored: bytes, begins: int
    ) -> None:
        """Else who has records of the epoch before it in that place would keep them."""
        log = machine.open(cleanup_policy="compact")
        for base, epoch in ((0, 0), (3, 0), (7, 1), (9, 1)):
            data = build_batch([Record(b"k", b"v", NOW)], base_offset=base, leader_epoch=epoch)
            log.append_as_is(data, [parse_header(data)], NOW)
        assert log.epochs.starts == [(0, 0), (1, 4)]  # as a follower hears of it
        machine.host.crash()
        machine.overwrite(f"{FOLDER}/leader-epoch-checkpoint", stored)
        log = machine.open(clean=False, settings=log.config)
        assert log.epochs.starts == [(0, 0), (1, begins)]

    def test_what_recovery_learns_is_written_down(self, machine: Machine) -> None:
        """Else the next recovery, which begins later, would take the epoch to begin where it looks first."""
        log = machine.open(index_interval_bytes=0)
        append(log, batch(2), epoch=0)
        for _ in range(5):
            append(log, batch(2), epoch=1)
        machine.overwrite(f"{FOLDER}/leader-epoch-checkpoint", b"0\n1\n0 0\n")  # the second was lost with the power
        log = machine.after_crash(log)
        assert log.epochs.starts == [(0, 0), (1, 2)]
        machine.host.crash()
        log = machine.open(clean=False, recovery_point=10, settings=log.config)
        assert log.epochs.starts == [(0, 0), (1, 2)]

    @pytest.mark.parametrize("seed", range(20))
    def test_those_of_what_only_the_tier_has_survive_a_loss_of_power(self, seed: int) -> None:
        """No batch that is left here tells of them."""
        with Machine(seed=seed) as machine:
            log = machine.open(segment_bytes=500, remote_storage_enable=True)
            for n in range(12):
                append(log, batch(2), epoch=n // 3)
            machine.flush(log)
            for segment in log.take_first_segments(len(log.segments) - 1):
                for path in segment.mark_deleted():
                    machine.disk.remove(path)
            machine.disk.sync_dir(FOLDER)
            append(log, batch(2), epoch=9)
            log = machine.after_power_loss(log)
            assert log.segments[0].base_offset > log.start_offset == 0
            assert log.epochs.starts[:4] == [(0, 0), (1, 6), (2, 12), (3, 18)]

    def test_epochs_beyond_a_cut_end_are_forgotten(self, machine: Machine) -> None:
        log = machine.open()
        append(log, batch(2), epoch=0)
        append(log, batch(2), epoch=1)
        size = len(batch(2))
        machine.disk.open(log.active.path).truncate(2 * size - 1)
        log = machine.after_crash(log)
        assert log.end_offset == 2
        assert log.epochs.starts == [(0, 0)]

    def test_an_empty_log_has_the_same_epochs_at_every_start(self, machine: Machine) -> None:
        """The last epoch is moved to the start, which here is the end too, and the next load would drop it there."""
        log = machine.open()
        append(log, batch(5), epoch=3)
        log.stop()
        machine.disk.remove(f"{FOLDER}/{0:020d}.log")
        first = machine.open(clean=False, start_offset=5, settings=log.config)
        found = list(first.epochs.starts)
        machine.host.crash()
        assert machine.open(clean=False, start_offset=5, settings=log.config).epochs.starts == found == []
