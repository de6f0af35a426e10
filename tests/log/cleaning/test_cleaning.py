"""What a cleaning keeps of a log, and how it looks afterwards."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.log.cleaning.given import SMALL, TABLE, Tables, headers, offsets, records, values
from tests.log.given import NOW, Machine, check_finding, check_indexes, everything, producer_state, replayed

from ottla.log.time_search import batch_at_or_after, record_at_or_after
from ottla.record.batch import DELETE_HORIZON_BIT, Codec
from ottla.record.reader import read_records

DAY = 86_400_000
CODECS = list(Codec)


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def test_the_newest_record_of_each_key_stays_with_its_offset(machine: Machine) -> None:
    tables = Tables(machine)
    tables.put([(b"a", b"1"), (b"b", b"1"), (b"a", b"2")])
    tables.put([(b"c", b"1"), (b"b", b"2")])
    tables.compact()
    assert values(tables.log) == [(b"a", b"2"), (b"c", b"1"), (b"b", b"2")]
    assert offsets(tables.log) == [2, 3, 4]
    assert tables.log.end_offset == 5
    assert tables.cleaned_offset == 5
    assert [header.base_offset for header in headers(tables.log)] == [0, 3]
    assert [header.last_offset for header in headers(tables.log)] == [2, 4]
    check_finding(tables.log)
    check_indexes(tables.log)


def test_the_active_segment_is_left_alone(machine: Machine) -> None:
    tables = Tables(machine, segment_bytes=100_000)
    tables.put([(b"a", b"1"), (b"a", b"2")])
    tables.clean()
    assert offsets(tables.log) == [0, 1]


def test_a_key_in_the_active_segment_replaces_nothing_yet(machine: Machine) -> None:
    tables = Tables(machine, segment_bytes=100_000)
    tables.put([(b"a", b"1"), (b"b", b"1"), (b"b", b"2")])
    tables.roll()
    tables.put([(b"a", b"2")])
    tables.clean()
    assert values(tables.log) == [(b"a", b"1"), (b"b", b"2"), (b"a", b"2")]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_the_codec_of_a_batch_stays(machine: Machine, codec: Codec) -> None:
    tables = Tables(machine)
    tables.put([(b"k%d" % (n % 5), b"value %d" % n) for n in range(20)], codec=codec)
    tables.put([(b"k%d" % (n + 3), b"value %d" % n) for n in range(20)], codec=codec)
    tables.compact()
    assert offsets(tables.log) == [15, 16, 17, *range(20, 40)]
    assert {header.codec for header in headers(tables.log)} == {codec}
    assert [header.record_count for header in headers(tables.log)] == [3, 20]


def test_the_largest_time_is_that_of_the_records_that_stay(machine: Machine) -> None:
    tables = Tables(machine)
    tables.put([(b"a", b"1"), (b"b", b"1")], timestamp=NOW)
    tables.put([(b"b", b"2")], timestamp=NOW - 1000)
    tables.compact()
    assert [header.max_timestamp for header in headers(tables.log)] == [NOW, NOW - 1000]
    assert [record.timestamp for record in records(tables.log)] == [NOW, NOW - 1000]
    assert tables.log.segments[0].max_timestamp == NOW


def test_the_brokers_time_stays(machine: Machine) -> None:
    tables = Tables(machine)
    tables.put([(b"a", b"1"), (b"b", b"1")], append_time=True)
    tables.put([(b"b", b"2")], append_time=True)
    before = headers(tables.log)[0].max_timestamp
    tables.compact()
    assert headers(tables.log)[0].max_timestamp == before
    assert headers(tables.log)[0].record_count == 1


def test_a_time_is_found_where_a_record_is_left(machine: Machine) -> None:
    tables = Tables(machine)
    tables.put([(b"a", b"1"), (b"b", b"1")], append_time=True, timestamp=NOW)
    tables.put([(b"c", b"1")], producer_id=7, timestamp=NOW + 10)
    tables.put([(b"a", b"2"), (b"c", b"2")], timestamp=NOW + 20)
    tables.compact()
    assert [header.record_count for header in headers(tables.log)] == [1, 0, 2]
    batch = batch_at_or_after(tables.log, NOW, 0)
    assert batch is not None
    found = record_at_or_after(batch.file.pread(batch.size, batch.position), NOW, 0)
    assert found is not None
    assert found.offset == 1
    batch = batch_at_or_after(tables.log, NOW + 10, 0)  # the batch that was emptied: whoever asks goes on behind it
    assert batch is not None
    assert record_at_or_after(batch.file.pread(batch.size, batch.position), NOW + 10, 0) is None


# -- tombstones


def test_a_tombstone_stays_for_its_time_and_then_goes(machine: Machine) -> None:
    tables = Tables(machine, delete_retention_ms=5_000)
    tables.put([(b"a", b"1"), (b"b", b"1")])
    tables.put([(b"a", None), (b"b", b"2")])
    tables.compact()
    assert values(tables.log) == [(b"a", None), (b"b", b"2")]
    (header,) = headers(tables.log)
    assert header.attributes & DELETE_HORIZON_BIT
    assert NOW < header.base_timestamp <= machine.env.clock.now_ms() + 5_000
    assert [record.timestamp for record in records(tables.log)] == [NOW, NOW + 1]

    tables.put([(b"c", b"1")])
    tables.compact()
    assert (b"a", None) in values(tables.log)  # not yet

    machine.pass_time(6)
    tables.put([(b"d", b"1")])
    tables.compact()
    assert values(tables.log) == [(b"b", b"2"), (b"c", b"1"), (b"d", b"1")]


def test_the_time_of_a_tombstone_counts_from_its_first_cleaning(machine: Machine) -> None:
    tables = Tables(machine, delete_retention_ms=5_000)
    tables.put([(b"a", None)], timestamp=NOW - 10 * DAY)
    tables.compact()
    first = headers(tables.log)[0].base_timestamp
    machine.pass_time(1)
    tables.put([(b"b", b"1")])
    tables.compact()
    assert headers(tables.log)[0].base_timestamp == first
    assert values(tables.log) == [(b"a", None), (b"b", b"1")]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_a_tombstone_among_others_in_a_compressed_batch(machine: Machine, codec: Codec) -> None:
    tables = Tables(machine, delete_retention_ms=0)
    tables.put([(b"k%d" % n, None if n % 3 == 0 else b"v%d" % n) for n in range(200)], codec=codec)
    tables.compact()
    assert [record.timestamp for record in records(tables.log)] == [NOW + n for n in range(200)]
    assert headers(tables.log)[0].attributes & DELETE_HORIZON_BIT
    machine.pass_time(1)
    tables.put([(b"z", b"1")])
    tables.compact()
    assert offsets(tables.log) == [*(n for n in range(200) if n % 3), 200]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=lambda codec: codec.name.lower())
def test_a_tombstone_that_shall_stay_for_ever_does(machine: Machine, codec: Codec) -> None:
    """Now and delete.retention.ms are more than there are milliseconds: Kafka's sum wraps, and is no horizon."""
    tables = Tables(machine, delete_retention_ms=2**63 - 1)
    tables.put([(b"a", b"1"), (b"a", None)], codec=codec)
    for n in range(2):
        tables.put([(b"b", b"%d" % n)])
        tables.compact()
        machine.pass_time(1)
    assert not tables.cleaner.state.is_uncleanable(tables.log)
    assert values(tables.log) == [(b"a", None), (b"b", b"1")]
    assert not headers(tables.log)[0].attributes & DELETE_HORIZON_BIT


# -- producers


def test_the_last_batch_of_a_producer_stays_though_empty(machine: Machine) -> None:
    tables = Tables(machine)
    tables.put([(b"a", b"1")], producer_id=7, sequence=0)
    tables.put([(b"a", b"2")], producer_id=7, sequence=1)
    tables.put([(b"a", b"3")], producer_id=8, sequence=0)
    tables.put([(b"a", b"4")])
    tables.compact()
    assert values(tables.log) == [(b"a", b"4")]
    assert [(h.producer_id, h.base_sequence, h.record_count, h.base_timestamp) for h in headers(tables.log)] == [
        (7, 1, 0, -1),
        (8, 0, 0, -1),
        (-1, -1, 1, NOW),
    ]
    assert producer_state(replayed(tables.log)) == producer_state(tables.log.producers)
    before = producer_state(tables.log.producers)
    tables.reopen()
    assert producer_state(tables.log.producers) == before


def test_the_last_batch_of_a_cleaning_stays_though_empty(machine: Machine) -> None:
    """Else the log's offsets could go back when its last segments are lost."""
    tables = Tables(machine, segment_bytes=100_000)
    tables.put([(b"a", None)])
    tables.compact()
    machine.pass_time(2 * DAY / 1000)
    tables.put([(b"b", b"1"), (b"b", b"2")])
    tables.roll()
    tables.put([(b"c", b"1")])
    tables.put([(None, b"no key")])
    tables.compact()
    assert values(tables.log)[-1] == (b"c", b"1")
    assert headers(tables.log)[-1].record_count == 0
    assert headers(tables.log)[-1].next_offset == tables.log.end_offset


# -- transactions


def test_aborted_records_go_and_their_marker_when_it_has_nothing_left_to_say(machine: Machine) -> None:
    tables = Tables(machine, delete_retention_ms=5_000)
    tables.put([(b"a", b"1")])
    tables.put([(b"a", b"aborted")], producer_id=7, transactional=True)
    tables.end(7, commit=False)
    tables.put([(b"b", b"1")], producer_id=7, sequence=1, transactional=True)
    tables.end(7, commit=True)
    tables.compact()
    assert values(tables.log) == [(b"a", b"1"), (b"b", b"1")]
    assert offsets(tables.log) == [0, 2, 3, 4]  # both markers are there
    assert len(tables.log.aborted_between(0, 99)) == 1  # the cleaning came across its batch

    tables.put([(b"c", b"1")])
    tables.compact()  # nothing of it is left: from now on the marker's time runs
    assert tables.log.aborted_between(0, 99) == []
    assert headers(tables.log)[1].attributes & DELETE_HORIZON_BIT
    machine.pass_time(6)
    tables.put([(b"d", b"1")])
    tables.compact()
    assert offsets(tables.log) == [0, 3, 4, 5, 6]  # the commit's marker stays with its record


def test_a_marker_that_is_all_that_is_known_of_a_producer_stays(machine: Machine) -> None:
    tables = Tables(machine, delete_retention_ms=0)
    tables.put([(b"a", b"aborted")], producer_id=7, transactional=True)
    tables.end(7, commit=False, producer_epoch=1)
    for n in range(3):
        machine.pass_time(1)
        tables.put([(b"b", b"%d" % n)])
        tables.compact()
    assert [(h.producer_id, h.producer_epoch, h.is_control) for h in headers(tables.log)] == [
        (7, 1, True),
        (-1, -1, False),
    ]
    assert producer_state(tables.log.producers)[7][0] == 1


def test_nothing_beyond_the_last_stable_offset_is_cleaned(machine: Machine) -> None:
    tables = Tables(machine, segment_bytes=100_000)
    tables.put([(b"a", b"1"), (b"a", b"2")])
    tables.roll()
    tables.put([(b"b", b"open")], producer_id=7, transactional=True)
    tables.put([(b"c", b"1"), (b"c", b"2")])
    tables.compact()
    assert offsets(tables.log) == [1, 2, 3, 4]
    tables.end(7, commit=True)
    tables.compact()
    assert offsets(tables.log) == [1, 2, 4, 5]


# -- limits


def test_a_map_that_is_too_small_takes_several_cleanings(machine: Machine) -> None:
    tables = Tables(machine, replace(SMALL, dedupe_bytes=24 * 20), segment_bytes=1000)
    for n in range(30):
        tables.put([(b"k%d" % (n * 7 % 60 + i), b"%d" % n) for i in range(5)])
    expected = dict(values(tables.log))
    tables.compact()
    assert tables.cleaned_offset == tables.log.segments[-1].base_offset
    assert dict(values(tables.log)) == expected
    assert len(values(tables.log)) == len(expected)


def test_a_batch_with_more_keys_than_the_map_holds_is_told_of(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """Once in every look. Kafka's cleaner begins again at once, for ever, and forgets how far the log was clean."""
    tables = Tables(machine, replace(SMALL, dedupe_bytes=24 * 20), segment_bytes=100_000)
    tables.put([(b"a", b"1"), (b"a", b"2")])
    tables.compact()
    tables.put([(b"k%d" % n, b"1") for n in range(30)])
    tables.compact()
    assert tables.cleaned_offset == 2
    assert caplog.text.count("log.cleaner.dedupe.buffer.size") == 1
    tables.settings = SMALL
    tables.clean()
    assert tables.cleaned_offset == 32


def test_what_lies_beyond_a_full_map_is_checked_too(machine: Machine) -> None:
    """Else a tombstone there, whose batch is written anew, would get a right checksum over wrong bytes."""
    tables = Tables(machine, replace(SMALL, dedupe_bytes=24 * 20), segment_bytes=100_000)
    tables.put([(b"k%d" % n, b"1") for n in range(10)])
    tables.put([(b"j%d" % n, b"1") for n in range(10)])
    tables.put([(b"gone", None)])
    tables.roll()
    path = tables.log.segments[0].path
    content = machine.read(path)
    machine.overwrite(path, content.replace(b"gone", b"GONE"))
    tables.clean()
    assert tables.cleaner.state.is_uncleanable(tables.log)
    assert b"GONE" in machine.read(path)


def test_a_record_larger_than_the_buffer(machine: Machine) -> None:
    tables = Tables(machine, segment_bytes=1 << 20)
    tables.put([(b"a", b"x" * 300_000)])
    tables.put([(b"a", b"y" * 300_000), (b"b", b"1")])
    tables.put([(b"b", b"2")])
    tables.compact()
    assert [(key, len(value or b"")) for key, value in values(tables.log)] == [(b"a", 300_000), (b"b", 1)]


def test_small_segments_become_one(machine: Machine) -> None:
    tables = Tables(machine, segment_bytes=500)
    for n in range(40):
        tables.put([(b"k%d" % (n % 4), b"%d" % n)])
    many = len(tables.log.segments)
    tables.compact()
    assert many > 5
    first = tables.log.segments[0]
    tables.put([(b"k", b"v")])
    tables.compact()
    assert len(tables.log.segments) <= 3
    assert tables.log.segments[0].base_offset == first.base_offset == 0
    assert offsets(tables.log) == [36, 37, 38, 39, 40]
    check_finding(tables.log)
    names = [name for name in machine.names(tables.log.folder) if not name.endswith(".deleted")]
    assert not [name for name in names if "cleaned" in name or "swap" in name]


def test_a_log_that_was_cleaned_opens_again(machine: Machine) -> None:
    tables = Tables(machine)
    for n in range(60):
        tables.put([(b"k%d" % (n % 7), b"%d" % n), (b"j%d" % n, b"%d" % n)])
    tables.compact()
    before = everything(tables.log)
    tables.reopen()
    assert everything(tables.log) == before
    assert tables.cleaned_offset == tables.log.segments[-1].base_offset
    check_finding(tables.log)
    check_indexes(tables.log)


def test_a_damaged_segment_makes_its_partition_uncleanable_and_nothing_else(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    tables = Tables(machine)
    tables.put([(b"a", b"1"), (b"a", b"2")])
    tables.roll()
    path = tables.log.segments[0].path
    content = bytearray(machine.read(path))
    content[70] ^= 1
    machine.overwrite(path, bytes(content))
    tables.clean()
    assert tables.cleaner.state.is_uncleanable(tables.log)
    assert (str(TABLE) in caplog.text and "checksum" in caplog.text) or "no sound batch" in caplog.text
    assert machine.read(path) == bytes(content)
    assert tables.log.failed is None
    rows = {g.family.name: list(g.rows) for g in tables.cleaner.state.collect_uncleanable(["/logs"])}
    assert rows["kafka_log_logcleanermanager_uncleanable_partitions_count"] == [('{logDirectory="/logs"}', 1)]
    tables.put([(b"b", b"1")])
    tables.compact()
    assert not [name for name in machine.names(tables.log.folder) if "cleaned" in name]


def test_readers_in_the_middle_go_on_in_the_old_files(machine: Machine) -> None:
    tables = Tables(machine)
    tables.put([(b"a", b"1"), (b"a", b"2")])
    tables.put([(b"a", b"3")])
    tables.roll()
    found = tables.log.read(0, 10_000, tables.log.end_offset, at_least_one=True)
    assert found is not None
    tables.clean()
    data = found.file.pread(found.size, found.position)
    assert [record.value for record in read_records(data)] == [b"1", b"2"]


def test_records_without_a_key_go(machine: Machine) -> None:
    """Of the time before the topic was compacted."""
    tables = Tables(machine)
    tables.put([(None, b"1"), (b"a", b"1")])
    tables.compact()
    assert values(tables.log) == [(b"a", b"1")]


def test_a_cleaned_segment_is_as_old_as_what_it_was_made_from(machine: Machine) -> None:
    """Records without a time are as old as their file: else every cleaning would make them young again."""
    tables = Tables(machine, cleanup_policy="compact,delete", retention_ms=5_000, segment_bytes=100_000)
    tables.put([(b"a", b"1"), (b"b", b"1"), (b"b", b"2")], timestamp=-3)
    tables.roll()
    written = tables.log.segments[0].last_modified_ms()
    machine.pass_time(4)
    tables.clean()
    assert offsets(tables.log) == [0, 2]
    assert tables.log.segments[0].max_timestamp < 0
    assert tables.log.segments[0].last_modified_ms() == written
    machine.pass_time(2)
    machine.wait_for(tables.manager.enforce_retention)
    assert tables.log.start_offset == 3


def test_both_policies_together(machine: Machine) -> None:
    tables = Tables(machine, cleanup_policy="compact,delete", retention_ms=60_000, segment_bytes=100_000)
    tables.put([(b"a", b"1"), (b"a", b"2")], timestamp=machine.env.clock.now_ms())
    tables.compact()
    assert offsets(tables.log) == [1]
    machine.pass_time(70)
    tables.put([(b"b", b"1"), (b"b", b"2")], timestamp=machine.env.clock.now_ms())
    machine.wait_for(tables.manager.enforce_retention)
    assert tables.log.start_offset == 2
    tables.compact()
    assert offsets(tables.log) == [3]
