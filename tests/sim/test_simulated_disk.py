"""The simulated disk: what a process sees, and what a crash or a power loss leaves."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.env.disk import PosixDisk
from ottla.env.ports import Disk
from ottla.sim.disk import SimDisk
from ottla.sim.faults import Moment, Operation
from ottla.sim.incarnation import SimulatedCrash
from ottla.sim.inode import PAGE, Inode


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(Random(1))
    disk.make_dirs("/data")
    disk.sync_dir("/")
    return disk


def durable_file(disk: SimDisk, path: str, content: bytes) -> None:
    file = disk.open(path, create=True)
    file.write([content], 0)
    file.sync()
    disk.sync_dir(path.rsplit("/", 1)[0])


def outcomes(disk: SimDisk, path: str, seeds: int = 200) -> set[bytes | None]:
    return {disk.power_loss(Random(seed)).snapshot().get(path) for seed in range(seeds)}


class TestAsAnyFileSystem:
    """The same story on the real disk and on the simulated one ends the same way."""

    def story(self, disk: Disk, root: str) -> list[object]:
        told: list[object] = []

        def attempt(action: Callable[[], object]) -> None:
            try:
                told.append(action())
            except OSError as error:
                told.append(errno.errorcode[error.errno or 0])

        disk.make_dirs(f"{root}/a/b")
        disk.make_dirs(f"{root}/a/b")
        file = disk.open(f"{root}/a/one", create=True)
        file.write([b"hello ", memoryview(b"world")], 0)
        file.write([b"!"], 20)
        told += [file.size(), file.pread(100, 0), file.pread(3, 4), file.pread(5, 21), file.pread_nowait(5, 0)]
        told.append(file.pread_nowait(5, 400))
        file.truncate(8)
        file.truncate(10)
        told.append(file.pread(100, 0))
        told.append(disk.open(f"{root}/a/one").pread(100, 0))
        attempt(lambda: disk.open(f"{root}/a/missing").size())
        attempt(lambda: disk.open(f"{root}/nowhere/x", create=True).size())
        attempt(lambda: disk.open(f"{root}/a/b").size())
        attempt(lambda: disk.list_dir(f"{root}/a"))
        attempt(lambda: disk.list_dir(f"{root}/missing"))
        attempt(lambda: disk.list_dir(f"{root}/a/one"))
        attempt(lambda: disk.remove(f"{root}/a/missing"))
        attempt(lambda: disk.remove(f"{root}/a/b"))
        attempt(lambda: disk.file_size(f"{root}/a/one"))
        attempt(lambda: disk.file_size(f"{root}/a/missing"))
        attempt(lambda: disk.make_dirs(f"{root}/a/one"))
        attempt(lambda: disk.rename(f"{root}/a/missing", f"{root}/a/x"))
        attempt(lambda: disk.rename(f"{root}/a/one", f"{root}/a/b"))
        attempt(lambda: disk.rename(f"{root}/a", f"{root}/a/b/c"))
        attempt(lambda: disk.rename(f"{root}/a/b", f"{root}/a/one"))
        disk.open(f"{root}/a/two", create=True).write([b"2"], 0)
        disk.rename(f"{root}/a/two", f"{root}/a/one")
        told += [disk.list_dir(f"{root}/a"), disk.open(f"{root}/a/one").pread(9, 0), file.pread(5, 0)]
        disk.rename(f"{root}/a", f"{root}/z")
        told += [disk.exists(f"{root}/a/one"), disk.exists(f"{root}/z/one"), disk.is_dir(f"{root}/z/b")]
        disk.sync_dir(f"{root}/z")
        disk.open(f"{root}/z/b/deep", create=True)
        attempt(lambda: disk.rename(f"{root}/z/b", f"{root}/z/b"))
        disk.make_dirs(f"{root}/y")
        attempt(lambda: disk.rename(f"{root}/y", f"{root}/z/b"))
        disk.remove_tree(f"{root}/z")
        disk.remove_tree(f"{root}/never-was")
        told += [disk.exists(f"{root}/z"), disk.list_dir(root), file.pread(2, 0)]
        file.close()
        attempt(lambda: file.pread(1, 0))
        release = disk.lock(f"{root}/.lock")
        attempt(lambda: disk.lock(f"{root}/.lock")())
        release()
        attempt(lambda: disk.lock(f"{root}/.lock")())
        return told

    def test_both_disks_tell_the_same_story(self, tmp_path: os.PathLike[str]) -> None:
        simulated = SimDisk(Random(0))
        simulated.make_dirs("/root")
        assert self.story(simulated, "/root") == self.story(PosixDisk(), os.fspath(tmp_path))


class TestCrash:
    def test_what_was_written_outlives_the_process(self, disk: SimDisk) -> None:
        disk.open("/data/a", create=True).write([b"unsynced"], 0)
        assert disk.crash().open("/data/a").pread(99, 0) == b"unsynced"

    def test_but_not_the_power_supply_even_if_another_process_came_between(self, disk: SimDisk) -> None:
        disk.open("/data/a", create=True).write([b"unsynced"], 0)
        assert None in outcomes(disk.crash(), "/data/a")

    def test_the_dead_process_reaches_the_disk_no_more(self, disk: SimDisk) -> None:
        file = disk.open("/data/a", create=True)
        after = disk.crash()
        uses: list[Callable[[], object]] = [
            lambda: file.write([b"x"], 0),
            lambda: file.truncate(0),
            lambda: file.pread(1, 0),
            file.size,
            file.sync,
            lambda: disk.open("/data/b", create=True),
            lambda: disk.exists("/data"),
            lambda: disk.remove("/data/a"),
            lambda: disk.rename("/data/a", "/data/b"),
            lambda: disk.make_dirs("/data/c"),
            lambda: disk.sync_dir("/data"),
            lambda: disk.lock("/data/.lock"),
        ]
        for use in uses:
            with pytest.raises(SimulatedCrash):
                use()
        file.close()
        assert after.snapshot() == {"/data": None, "/data/a": b""}

    def test_locks_are_released(self, disk: SimDisk) -> None:
        disk.lock("/data/.lock")
        with pytest.raises(BlockingIOError):
            disk.lock("/data/.lock")
        disk.crash().lock("/data/.lock")

    def test_a_planned_crash_comes_at_its_operation(self, disk: SimDisk) -> None:
        file = disk.open("/data/a", create=True)
        disk.crash_at(disk.operations + 2)
        file.write([b"one"], 0)
        with pytest.raises(SimulatedCrash, match="before operation 5, write of /data/a"):
            file.write([b"two"], 3)
        assert disk.crash().snapshot()["/data/a"] == b"one"

    def test_an_operation_that_has_passed_cannot_be_planned(self, disk: SimDisk) -> None:
        with pytest.raises(ValueError, match="has passed"):
            disk.crash_at(disk.operations)

    @pytest.mark.parametrize(
        ("moment", "possible"),
        [
            (Moment.BEFORE, {b""}),
            (Moment.AFTER, {b"abcd"}),
            (Moment.DURING, {b"", b"a", b"ab", b"abc"}),
        ],
    )
    def test_a_write_is_missing_torn_or_done(self, moment: Moment, possible: set[bytes]) -> None:
        seen = set()
        for seed in range(60):
            disk = SimDisk(Random(seed))
            file = disk.open("/a", create=True)
            disk.crash_at(2, moment)
            with pytest.raises(SimulatedCrash):
                file.write([b"ab", b"cd"], 0)
            seen.add(disk.crash().snapshot()["/a"])
        assert seen == possible

    def test_a_crash_can_be_planned_at_every_operation_of_a_story(self) -> None:
        def story(disk: SimDisk) -> None:
            disk.make_dirs("/d/e")
            file = disk.open("/d/a.tmp", create=True)
            file.write([b"x" * 10], 0)
            file.sync()
            file.truncate(4)
            disk.rename("/d/a.tmp", "/d/a")
            disk.sync_dir("/d")
            disk.remove("/d/a")
            disk.remove_tree("/d")

        whole = SimDisk(Random(0))
        story(whole)
        assert whole.operations == 11
        states = []
        for operation in range(1, whole.operations + 1):
            disk = SimDisk(Random(0))
            disk.crash_at(operation)
            with pytest.raises(SimulatedCrash):
                story(disk)
            states.append(disk.crash().digest())
        assert states[9:] == [states[2], states[1]]  # the removals come back to where the folders were made
        assert len(set(states)) == len(states) - 2 - 2  # and the two syncs change nothing that is seen

    def test_one_is_told_of_a_planned_death(self) -> None:
        told: list[str] = []
        disk = SimDisk(Random(0), on_death=lambda: told.append("dead"))
        disk.crash_at(1)
        with pytest.raises(SimulatedCrash):
            disk.make_dirs("/x")
        assert told == ["dead"]


class TestPowerLoss:
    def test_synced_bytes_under_a_synced_name_survive(self, disk: SimDisk) -> None:
        durable_file(disk, "/data/a", b"safe")
        assert outcomes(disk, "/data/a") == {b"safe"}

    def test_a_synced_file_whose_folder_was_not_may_vanish(self, disk: SimDisk) -> None:
        file = disk.open("/data/a", create=True)
        file.write([b"safe?"], 0)
        file.sync()
        assert outcomes(disk, "/data/a") == {b"safe?", None}

    def test_a_folder_is_its_parents_to_sync(self, disk: SimDisk) -> None:
        disk.make_dirs("/data/t-0")
        durable_file(disk, "/data/t-0/a", b"safe?")
        assert outcomes(disk, "/data/t-0/a") == {b"safe?", None}
        disk = disk.crash()
        disk.sync_dir("/data")
        assert outcomes(disk, "/data/t-0/a") == {b"safe?"}

    def test_an_unsynced_append_is_there_in_part_or_not_at_all(self, disk: SimDisk) -> None:
        durable_file(disk, "/data/a", b"safe")
        disk.open("/data/a").write([b"new"], 4)
        seen = outcomes(disk, "/data/a", 1000)
        assert {b"safe", b"safen", b"safene", b"safenew"} <= seen
        assert seen <= {b"safe" + part for part in (b"", b"n", b"ne", b"new", b"\0", b"\0\0", b"\0\0\0")} | {
            b"safen\0",
            b"safen\0\0",
            b"safene\0",
        }

    def test_a_later_page_may_survive_an_earlier_one(self, disk: SimDisk) -> None:
        durable_file(disk, "/data/a", b"")
        disk.open("/data/a").write([b"1" * PAGE, b"2" * PAGE], 0)
        assert bytes(PAGE) + b"2" * PAGE in outcomes(disk, "/data/a", 500)

    def test_a_rename_over_a_file_gives_the_old_one_or_the_new_one(self, disk: SimDisk) -> None:
        durable_file(disk, "/data/a", b"old")
        durable_file(disk, "/data/a.tmp", b"new")
        disk.rename("/data/a.tmp", "/data/a")
        seen = {
            (after.snapshot()["/data/a"], after.exists("/data/a.tmp"))
            for after in (disk.power_loss(Random(seed)) for seed in range(100))
        }
        assert seen == {(b"old", True), (b"new", False)}

    def test_a_rename_without_a_sync_of_the_file_may_leave_it_empty(self, disk: SimDisk) -> None:
        durable_file(disk, "/data/a", b"old")
        disk.open("/data/a.tmp", create=True).write([b"new"], 0)
        disk.rename("/data/a.tmp", "/data/a")
        disk.sync_dir("/data")
        seen = outcomes(disk, "/data/a")
        assert b"" in seen
        assert b"new" in seen
        assert b"old" not in seen

    def test_an_unsynced_removal_may_be_undone(self, disk: SimDisk) -> None:
        durable_file(disk, "/data/a", b"safe")
        disk.remove("/data/a")
        assert outcomes(disk, "/data/a") == {b"safe", None}
        disk = disk.crash()
        disk.sync_dir("/data")
        assert outcomes(disk, "/data/a") == {None}

    def test_a_renamed_folder_keeps_its_files(self, disk: SimDisk) -> None:
        disk.make_dirs("/data/t-0")
        disk.sync_dir("/data")
        durable_file(disk, "/data/t-0/a", b"safe")
        disk.rename("/data/t-0", "/data/t-0.deleted")
        for seed in range(50):
            left = disk.power_loss(Random(seed)).snapshot()
            assert (left.get("/data/t-0/a") == b"safe") != (left.get("/data/t-0.deleted/a") == b"safe")

    def test_an_unsynced_truncation_may_be_undone(self, disk: SimDisk) -> None:
        durable_file(disk, "/data/a", b"long")
        disk.open("/data/a").truncate(1)
        assert {b"l", b"long"} <= outcomes(disk, "/data/a")

    def test_what_a_truncation_cut_never_shines_through_what_came_after(self, disk: SimDisk) -> None:
        durable_file(disk, "/data/a", b"o" * 3 * PAGE)
        file = disk.open("/data/a")
        file.truncate(100)
        file.write([b"n" * 2 * PAGE], 200)
        for seen in outcomes(disk, "/data/a", 500):
            assert seen is not None
            if b"n" in seen or bytes(10) in seen:
                assert b"o" not in seen[100:]

    def test_a_dead_disk_can_be_asked_again_and_answers_by_the_seed(self, disk: SimDisk) -> None:
        disk.open("/data/a", create=True).write([b"x" * 20_000], 0)
        first = [disk.power_loss(Random(seed)).digest() for seed in range(30)]
        assert first == [disk.power_loss(Random(seed)).digest() for seed in range(30)]
        assert len(set(first)) > 3


class TestErrors:
    def test_a_full_disk_takes_a_part_and_says_so(self, disk: SimDisk) -> None:
        file = disk.open("/data/0.log", create=True)
        fault = disk.fail("*.log", errno.ENOSPC, ["write"])
        with pytest.raises(OSError, match="No space left") as caught:
            file.write([b"x" * 100], 0)
        assert caught.value.errno == errno.ENOSPC
        assert 0 <= file.size() < 100
        disk.open("/data/0.index", create=True).write([b"x"], 0)
        fault.heal()
        file.write([b"x" * 100], 0)
        assert file.size() == 100

    def test_errors_can_be_counted(self, disk: SimDisk) -> None:
        disk.fail("/data/*", errno.EIO, ["read"], times=1)
        file = disk.open("/data/a", create=True)
        with pytest.raises(OSError, match="Input/output"):
            file.pread(1, 0)
        assert file.pread(1, 0) == b""

    def test_an_unknown_operation_is_refused(self, disk: SimDisk) -> None:
        misspelt: Operation = "fsync"  # type: ignore[assignment]
        with pytest.raises(ValueError, match="fsync"):
            disk.fail("*", operations=[misspelt])

    def test_after_a_failed_sync_the_next_one_saves_nothing_of_what_failed(self, disk: SimDisk) -> None:
        durable_file(disk, "/data/a", b"safe")
        seen = set()
        for seed in range(50):
            each = disk.crash()
            each.random = Random(seed)
            file = each.open("/data/a")
            file.write([b"lost"], 4)
            each.fail("*", errno.EIO, ["sync"], times=1)
            with pytest.raises(OSError, match="Input/output"):
                file.sync()
            file.sync()
            assert file.pread(99, 0) == b"safelost"
            seen |= outcomes(each, "/data/a", 3)
        assert b"safe" in seen
        assert b"safelost" in seen

    def test_cold_reads_give_none_or_a_part(self) -> None:
        disk = SimDisk(Random(0), cold_reads=0.5)
        file = disk.open("/a", create=True)
        file.write([b"abc"], 0)
        assert {file.pread_nowait(3, 0) for _ in range(200)} == {None, b"a", b"ab", b"abc"}


# Property: whatever is done to a file, what a power loss leaves is made of what was done.

changes = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3 * PAGE), st.integers(1, 2 * PAGE)),
        st.tuples(st.just("truncate"), st.integers(0, 4 * PAGE), st.just(0)),
        st.tuples(st.just("sync"), st.just(0), st.just(0)),
    ),
    max_size=12,
)


@settings(max_examples=100, deadline=None)
@given(changes, st.integers())
def test_nothing_synced_is_lost_and_nothing_is_invented(steps: list[tuple[str, int, int]], seed: int) -> None:
    inode = Inode()
    versions = [b""]  # since the last sync
    for number, (step, position, size) in enumerate(steps, 1):
        if step == "write":
            inode.write(position, bytes([number]) * size, 0)
            versions.append(bytes(inode.content))
        elif step == "truncate":
            inode.truncate(position, 0)
            versions.append(bytes(inode.content))
        else:
            inode.sync()
            versions = [bytes(inode.content)]

    left = inode.after_power_loss(Random(seed))

    assert min(map(len, versions)) <= len(left) <= max(map(len, versions))
    if len(versions) == 1:
        assert left == versions[0]
    longest = max(map(len, versions))
    padded = [version.ljust(longest, b"\0") for version in versions]
    for place, byte in enumerate(left):
        assert byte == 0 or any(version[place] == byte for version in padded)
    untouched = [place for place in range(min(map(len, versions))) if len({version[place] for version in padded}) == 1]
    assert all(left[place] == padded[0][place] for place in untouched)


names = st.sampled_from(["a", "b", "c"])
folders = st.sampled_from(["/d", "/e"])
namings = st.lists(
    st.one_of(
        st.tuples(st.just("create"), folders, names, folders, names),
        st.tuples(st.just("rename"), folders, names, folders, names),
        st.tuples(st.just("remove"), folders, names, folders, names),
        st.tuples(st.just("sync"), folders, names, folders, names),
    ),
    max_size=15,
)


@settings(max_examples=100, deadline=None)
@given(namings, st.integers())
def test_names_that_were_synced_and_not_touched_again_survive(
    steps: list[tuple[str, str, str, str, str]], seed: int
) -> None:
    disk = SimDisk(Random(0))
    for folder in ("/d", "/e"):
        disk.make_dirs(folder)
    disk.sync_dir("/")
    settled: dict[str, bytes | None] = {}  # paths whose state is known to be durable
    ever: set[bytes] = set()
    for number, (step, folder, name, other_folder, other_name) in enumerate(steps):
        path, other = f"{folder}/{name}", f"{other_folder}/{other_name}"
        if step == "create" and not disk.exists(path):
            content = bytes([number])
            file = disk.open(path, create=True)
            file.write([content], 0)
            file.sync()
            ever.add(content)
            settled.pop(path, None)
        elif step == "rename" and disk.exists(path) and path != other:
            disk.rename(path, other)
            settled.pop(path, None)
            settled.pop(other, None)
        elif step == "remove" and disk.exists(path):
            disk.remove(path)
            settled.pop(path, None)
        elif step == "sync":
            disk.sync_dir(folder)
            now = disk.snapshot()
            settled |= {f"{folder}/{each}": now.get(f"{folder}/{each}") for each in "abc"}

    before = disk.snapshot()
    left = disk.power_loss(Random(seed)).snapshot()

    for path, known in settled.items():
        assert left.get(path) == known
        assert before.get(path) == known
    contents = [content for content in left.values() if content is not None]
    assert set(contents) <= ever
    assert len(contents) == len(set(contents)), "a file under two names"


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.sampled_from(Moment), st.integers(0, 2**32))
def test_replacing_a_file_by_rename_is_atomic_wherever_the_power_fails(crash: int, moment: Moment, seed: int) -> None:
    """The pattern that checkpoints use: write beside, sync, rename, sync the folder."""
    disk = SimDisk(Random(seed))
    disk.make_dirs("/d")
    disk.sync_dir("/")
    durable_file(disk, "/d/checkpoint", b"0" * 5000)
    disk.crash_at(disk.operations + crash, moment)
    acknowledged = 0
    with suppress(SimulatedCrash):
        for number in range(1, 4):
            file = disk.open("/d/checkpoint.tmp", create=True)
            file.write([b"%d" % number * 5000], 0)
            file.sync()
            disk.rename("/d/checkpoint.tmp", "/d/checkpoint")
            disk.sync_dir("/d")
            acknowledged = number

    content = disk.power_loss(Random(seed)).snapshot()["/d/checkpoint"]

    assert content in [b"%d" % number * 5000 for number in (acknowledged, acknowledged + 1)]
