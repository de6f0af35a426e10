"""Bytes that are not what they were: indexes, tails, missing files. Reads stay right, or say that they cannot."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from tests.log.given import (
    FOLDER,
    NOW,
    Machine,
    append,
    batch,
    batches_of,
    check_finding,
    check_indexes,
    everything,
    kafkas_indexes,
    read_at,
)

from ottla.log.partition_log import PartitionLog
from ottla.log.segment import DamagedLog
from ottla.record.batch import parse_header
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.sim.incarnation import SimulatedCrash

INTERVAL = 150


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def stopped_log(machine: Machine, segments: int = 2) -> PartitionLog:
    """Cleanly stopped, with timestamps that tell batches apart."""
    log = machine.open(index_interval_bytes=INTERVAL, segment_bytes=1400)
    n = 0
    while len(log.segments) < segments or log.active.size < 1000:
        append(log, batch(n % 3 + 1, timestamp=NOW + 10 * n, size=n % 5 * 8))
        n += 1
    log.stop()
    return log


def index_bytes(machine: Machine, log: PartitionLog, number: int) -> tuple[bytes, bytes]:
    segment = log.segments[number]
    return machine.read(segment.offset_index.entries.path), machine.read(segment.time_index.entries.path)


class TestIndexes:
    @pytest.mark.parametrize("suffix", ["index", "timeindex"])
    def test_a_flipped_byte_anywhere_costs_nothing_but_a_rebuild(self, machine: Machine, suffix: str) -> None:
        stopped = stopped_log(machine)
        for segment in stopped.segments:
            path = segment.path.replace(".log", f".{suffix}")
            good = machine.read(path)
            assert len(good) >= 32
            for position in range(len(good)):
                for flip in (0x01, 0x80, 0xFF):
                    bad = bytearray(good)
                    bad[position] ^= flip
                    machine.overwrite(path, bytes(bad))
                    log = machine.open(settings=stopped.config)
                    check_finding(log, every=2)
                    assert log.segments[0].max_timestamp == stopped.segments[0].max_timestamp
                    assert log.active.max_timestamp == stopped.active.max_timestamp
                    machine.overwrite(path, good)

    @pytest.mark.parametrize("seed", range(15))
    def test_neither_do_regions_of_zeros_or_noise(self, seed: int) -> None:
        random = Random(seed)
        with Machine(seed) as machine:
            stopped = stopped_log(machine, segments=3)
            for segment in stopped.segments:
                for index in (segment.offset_index, segment.time_index):
                    content = bytearray(machine.read(index.entries.path))
                    start = random.randrange(len(content))
                    end = random.randint(start, len(content))
                    content[start:end] = bytes(end - start) if random.random() < 0.5 else random.randbytes(end - start)
                    machine.overwrite(index.entries.path, bytes(content))
            log = machine.open(settings=stopped.config)
            check_finding(log)
            assert everything(log) == everything(machine.open(settings=stopped.config))

    @pytest.mark.parametrize("clean", [True, False])
    @pytest.mark.parametrize("suffix", ["index", "timeindex"])
    @pytest.mark.parametrize(
        "damage",
        [
            lambda content: None,
            lambda content: b"",
            lambda content: content[:-1],
            lambda content: content[: len(content) // 24 * 12],
            lambda content: content + b"\x01" * 5,
            lambda content: bytes(len(content)),
            lambda content: content + bytes(24),
            lambda content: content + content[-12:],
        ],
        ids=["missing", "empty", "cut", "half", "longer", "zeros", "zeros after it", "last entries twice"],
    )
    def test_what_a_glance_can_see_is_rebuilt_at_the_start(
        self, machine: Machine, suffix: str, damage: Callable[[bytes], bytes | None], clean: bool
    ) -> None:
        stopped = stopped_log(machine, segments=3)
        for segment in stopped.segments:
            path = segment.path.replace(".log", f".{suffix}")
            content = damage(machine.read(path))
            machine.disk.remove(path)
            if content is not None:
                machine.overwrite(path, content)
        log = machine.open(settings=stopped.config, clean=clean, recovery_point=stopped.end_offset)
        check_finding(log)
        for segment, before in zip(log.segments, stopped.segments, strict=True):
            assert segment.max_timestamp == before.max_timestamp
        if suffix == "timeindex" or damage(b"x" * 48) != b"":
            check_indexes(log)

    def test_a_rebuilt_index_is_that_of_kafkas_rules(self, machine: Machine) -> None:
        stopped = stopped_log(machine, segments=3)
        before = [index_bytes(machine, stopped, n) for n in range(3)]
        for segment in stopped.segments:
            machine.disk.remove(segment.offset_index.entries.path)
        log = machine.open(settings=stopped.config)
        assert [index_bytes(machine, log, n) for n in range(3)] == before
        assert kafkas_indexes(log.segments[0], INTERVAL, finished=True)[0]

    def test_one_that_a_read_stumbles_over_is_rebuilt_on_disk(self, machine: Machine) -> None:
        stopped = stopped_log(machine)
        path = stopped.segments[0].offset_index.entries.path
        good = machine.read(path)
        machine.overwrite(path, good[:4] + b"\x00\x00\x00\x07" + good[8:])  # a position where no batch begins
        log = machine.open(settings=stopped.config)
        check_finding(log)
        assert machine.read(path) == good

    def test_a_position_beyond_the_log_does_not_hide_records(self, machine: Machine) -> None:
        """A search from there would find nothing, and the reader would be sent to the next segment."""
        stopped = stopped_log(machine)
        path = stopped.segments[0].offset_index.entries.path
        good = machine.read(path)
        for position in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", (1400).to_bytes(4, "big")):
            machine.overwrite(path, good[:4] + position + good[8:])
            log = machine.open(settings=stopped.config)
            assert everything(log, max_bytes=1) == everything(log)
            check_finding(log)

    @pytest.mark.parametrize("seed", range(10))
    def test_a_rebuild_is_whole_or_not_at_all(self, seed: int) -> None:
        """A crash in the middle of it must not leave half an index that looks sound."""
        with Machine(seed) as machine:
            stopped = stopped_log(machine, segments=3)
            largest = [segment.max_timestamp for segment in stopped.segments]
            for segment in stopped.segments:
                machine.disk.remove(segment.offset_index.entries.path)
            operations = 0
            while True:
                operations += 1
                copy = machine.disk.crash()
                with Machine(seed, disk=copy) as other:
                    copy.crash_at(operations)
                    with suppress(SimulatedCrash):
                        other.open(settings=stopped.config)
                        break
                for left in (copy.crash(), copy.power_loss(Random(seed))):
                    with Machine(seed, disk=left) as another:
                        log = another.open(settings=stopped.config, clean=False, recovery_point=stopped.end_offset)
                        assert [segment.max_timestamp for segment in log.segments] == largest
                        check_finding(log, every=3)
            assert operations > 5

    @pytest.mark.parametrize("seed", range(25))
    def test_what_recovery_rebuilds_below_the_recovery_point_survives_the_next_loss_of_power(self, seed: int) -> None:
        """The index that it replaces was synced; a shorter one would hide the largest timestamp."""
        with Machine(seed) as machine:
            log = machine.open(index_interval_bytes=100)
            for n in range(30):
                append(log, batch(timestamp=NOW + 1000 - n))  # the first is the newest
            machine.flush(log)
            machine.overwrite(log.active.offset_index.entries.path, b"")
            for _ in range(3):
                log = machine.after_power_loss(log)
                assert log.active.max_timestamp == NOW + 1000
                check_indexes(log)


class TestTails:
    def test_a_batch_cut_at_any_byte_is_cut_off(self, machine: Machine) -> None:
        log = machine.open()
        for n in range(4):
            append(log, batch(2, value=b"%d" % n))
        machine.host.crash()
        content = machine.read(log.active.path)
        size = len(content) // 4
        for cut in range(1, size):
            machine.overwrite(log.active.path, content[:-cut])
            log = machine.open(clean=False, settings=log.config)
            assert log.end_offset == 6
            assert machine.read(log.active.path) == content[: 3 * size]
            assert append(log, batch()) == 6

    @pytest.mark.parametrize("tail", [bytes(1), bytes(61), bytes(5000), b"\xff" * 100, b"garbage" * 30])
    @pytest.mark.parametrize("clean", [True, False])
    def test_what_follows_the_last_batch_and_is_none_is_cut_off(
        self, machine: Machine, tail: bytes, clean: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        log = machine.open(index_interval_bytes=100)
        for n in range(20):
            append(log, batch(2, timestamp=NOW + n))
        log.stop()
        content = machine.read(log.active.path)
        machine.overwrite(log.active.path, content + tail)
        log = machine.open(clean=clean, recovery_point=40, settings=log.config)
        assert log.end_offset == 40
        assert machine.read(log.active.path) == content
        assert f"cut {len(tail)} bytes" in caplog.text
        check_indexes(log)
        check_finding(log)

    @pytest.mark.parametrize("clean", [True, False])
    @pytest.mark.parametrize("number", range(0, 20, 3))
    def test_a_batch_with_a_wrong_checksum_ends_the_log(self, machine: Machine, number: int, clean: bool) -> None:
        """After a clean stop only the last batches are looked at, so that one further back stays unseen."""
        log = machine.open(index_interval_bytes=300)
        for n in range(20):
            append(log, batch(2, timestamp=NOW + n, value=b"%d" % n))
        log = machine.reopen(log)
        content = bytearray(machine.read(log.active.path))
        damaged = batches_of(machine.open(settings=log.config).active)[number]
        looked_at = kafkas_indexes(log.active, 300, finished=True)[0][-1][1]
        content[damaged.position + 70] ^= 0x40
        machine.overwrite(log.active.path, bytes(content))
        log = machine.open(clean=clean, settings=log.config)
        if clean and damaged.position < looked_at:
            assert log.end_offset == 40
            return
        assert log.end_offset == 2 * number
        assert machine.disk.file_size(log.active.path) == damaged.position
        check_indexes(log)
        assert append(log, batch()) == 2 * number

    def test_the_end_offset_is_right_when_not_even_the_indexed_batch_is_good(self, machine: Machine) -> None:
        """Else the log would take the segment's base for its end, and give offsets away a second time."""
        log = machine.open(index_interval_bytes=0)
        for n in range(10):
            append(log, batch(2, timestamp=NOW + n))
        log.stop()
        content = machine.read(log.active.path)
        machine.overwrite(log.active.path, content[:-1] + b"\xff")
        log = machine.open(settings=log.config)
        assert log.end_offset == 18
        assert append(log, batch()) == 18
        check_indexes(log)

    @pytest.mark.parametrize("compact", [False, True])
    def test_damage_in_an_older_segment_ends_the_log_there(self, machine: Machine, compact: bool) -> None:
        policy = "compact" if compact else "delete"
        log = machine.open(segment_bytes=400, cleanup_policy=policy)
        for _ in range(20):
            append(log, batch(2))
        bases = [segment.base_offset for segment in log.segments]
        assert len(bases) > 4
        machine.host.crash()
        content = bytearray(machine.read(log.segments[2].path))
        content[-1] ^= 1
        machine.overwrite(log.segments[2].path, bytes(content))
        log = machine.open(clean=False, settings=log.config)
        assert [segment.base_offset for segment in log.segments] == bases[:3]
        assert log.end_offset == bases[3] - 2
        assert not [name for name in machine.names() if int(name[:20] if name[:20].isdigit() else 0) > log.end_offset]

    def test_a_gap_between_segments_ends_the_log_unless_compaction_made_it(self, machine: Machine) -> None:
        """A loss of power takes the end of a segment, to the byte, and leaves the next: nothing else shows the hole."""
        for policy, ends in (("delete", 6), ("compact", 12)):
            log = machine.open(cleanup_policy=policy)
            for n in range(3):
                for _ in range(2):
                    append(log, batch(2))
                if n < 2:
                    log.roll(NOW)
            path = log.segments[1].path
            machine.host.crash()
            machine.overwrite(path, machine.read(path)[: len(batch(2))])
            log = machine.open(clean=False, settings=log.config)
            assert log.end_offset == ends, policy
            machine.disk.remove_tree(FOLDER)

    def test_also_when_a_whole_segment_is_missing(self, machine: Machine) -> None:
        log = machine.open(segment_bytes=400)
        for _ in range(20):
            append(log, batch(2))
        bases = [segment.base_offset for segment in log.segments]
        machine.host.crash()
        machine.disk.remove(f"{FOLDER}/{bases[2]:020d}.log")
        log = machine.open(clean=False, settings=log.config)
        assert log.end_offset == bases[2]

    @pytest.mark.parametrize(
        ("epochs", "told", "begins_at", "ends_at"),
        [
            pytest.param(b"0\n1\n0 0\n", {}, 0, 0, id="it was lost"),
            pytest.param(None, {}, 0, 0, id="with the epochs"),
            pytest.param(b"0\n1\n0 4\n", {}, 4, 40, id="Apache Kafka gave it up"),
            pytest.param(b"0\n1\n0 0\n", {"start_offset": 4}, 4, 40, id="it was given up"),
            pytest.param(b"0\n1\n0 0\n", {"recovery_point": 6}, 4, 40, id="what was flushed is not lost"),
            pytest.param(b"0\n1\n0 0\n", {"clean": True}, 4, 40, id="nothing is lost by a stop"),
        ],
    )
    def test_or_the_first(
        self, machine: Machine, epochs: bytes | None, told: dict[str, Any], begins_at: int, ends_at: int
    ) -> None:
        """Else a replica would come back with a hole that nobody sees, and might lead."""
        log = machine.open(segment_bytes=200)
        for _ in range(20):
            append(log, batch(2))
        assert log.segments[1].base_offset == 4
        machine.host.crash()
        machine.disk.remove(f"{FOLDER}/{0:020d}.log")
        machine.disk.remove(f"{FOLDER}/leader-epoch-checkpoint")
        if epochs is not None:
            machine.overwrite(f"{FOLDER}/leader-epoch-checkpoint", epochs)
        log = machine.open(settings=log.config, **({"clean": False} | told))
        assert (log.start_offset, log.end_offset) == (begins_at, ends_at)
        append(log, batch(2))
        log = machine.after_crash(log)
        assert (log.start_offset, log.end_offset) == (begins_at, ends_at + 2)

    def test_a_compacted_history_is_not_taken_for_a_loss(self, machine: Machine) -> None:
        """The topic's policy was changed after its compaction: batches with gaps between them are the sign."""
        log = machine.open()
        for base in (0, 5, 20, 21):
            data = build_batch([Record(b"k", b"v", NOW)], base_offset=base, leader_epoch=0)
            if base == 20:
                log.roll(NOW, 12)
            log.append_as_is(data, (parse_header(data),), NOW)
        machine.host.crash()
        log = machine.open(clean=False, settings=log.config)
        assert log.end_offset == 22
        assert [segment.base_offset for segment in log.segments] == [0, 12]


class TestDamageInTheMiddle:
    def test_is_told_to_those_who_read_it_and_to_nobody_else(self, machine: Machine) -> None:
        stopped = stopped_log(machine, segments=3)
        middle = batches_of(machine.open(settings=stopped.config).segments[1])
        damaged = middle[len(middle) // 2]
        path = stopped.segments[1].path
        content = bytearray(machine.read(path))
        content[damaged.position : damaged.position + 30] = bytes(30)
        machine.overwrite(path, bytes(content))
        log = machine.open(settings=stopped.config)
        assert read_at(log, 0, 100, log.end_offset) is not None
        assert read_at(log, log.active.base_offset, 100, log.end_offset) is not None
        for _ in range(3):
            with pytest.raises(DamagedLog):
                read_at(log, damaged.header.base_offset, 100, log.end_offset)
        assert read_at(log, middle[-1].header.base_offset, 100, log.end_offset) is not None, "found by an index entry"


class TestMissingFiles:
    @pytest.mark.parametrize("clean", [True, False])
    def test_everything_but_the_logs_can_be_made_again(self, machine: Machine, clean: bool) -> None:
        log = machine.open(segment_bytes=500)
        for n in range(30):
            append(log, batch(producer_id=n % 3, sequence=n // 3, timestamp=NOW + n), epoch=n // 10)
        expected = everything(log)
        epochs, producers = list(log.epochs.starts), set(log.producers.entries)
        log.stop()
        for name in machine.names():
            if not name.endswith(".log"):
                machine.disk.remove(f"{FOLDER}/{name}")
        log = machine.open(clean=clean, recovery_point=30, settings=log.config)
        assert everything(log) == expected
        assert log.epochs.starts == epochs
        assert set(log.producers.entries) == producers
        check_indexes(log)

    def test_indexes_without_a_log_and_leftovers_are_removed(self, machine: Machine) -> None:
        log = machine.open()
        append(log, batch())
        log.stop()
        strays = [f"{7:020d}.index", f"{7:020d}.timeindex", f"{7:020d}.txnindex", f"{3:020d}.log.deleted", "x.tmp"]
        for name in strays:
            machine.overwrite(f"{FOLDER}/{name}", b"")
        machine.open(settings=log.config)
        assert not set(strays) & set(machine.names())
