"""Records of consumer groups: byte for byte those that Apache Kafka 4.3.0 writes, and read back to the same."""

from collections.abc import Callable
from uuid import UUID

import pytest

from ottla.coordinator.group.classic.requests import Protocol
from ottla.coordinator.group.consumer import records
from ottla.coordinator.group.consumer.codec import read_names
from ottla.coordinator.group.consumer.members import ClassicMember, Member, MemberState
from ottla.coordinator.group.consumer.records import GroupEpoch, Matches, TargetEpoch
from ottla.coordinator.machine import StoredRecord
from ottla.model.errors import OttlaError

TOPIC = UUID("01020304-0506-0708-1112-131415161718")
MEMBER = Member(
    "m", "i", None, "c", "/1.2.3.4", frozenset("ba"), "x.*", 300000, "range", None,
    9, 8, MemberState.UNREVOKED_PARTITIONS, {TOPIC: {0: 3, 1: 9}}, {TOPIC: {4: 2}},
)  # fmt: skip
CLASSIC = MEMBER._replace(pattern=None, classic=ClassicMember(45000, (Protocol("range", b"\1\2"),)))
TARGET = {TOPIC: frozenset((0, 1, 5))}
MATCHES = Matches(frozenset(("xb", "xa")), 42, 99)


def value_of(record: StoredRecord) -> bytes:
    assert record.value is not None
    return record.value


# made by GroupCoordinatorRecordHelpers and GroupCoordinatorRecordSerde of Apache Kafka 4.3.0
KAFKAS = {
    "group": (records.group_record("g", GroupEpoch(7, -5)), "0003000167", "000000000007010008fffffffffffffffb"),
    "group without a hash": (records.group_record("g", GroupEpoch(7)), "0003000167", "00000000000700"),
    "target epoch": (
        records.target_epoch_record("g", TargetEpoch(7, 1234567)),
        "0006000167",
        "000000000007010008000000000012d687",
    ),
    "target epoch without a time": (
        records.target_epoch_record("g", TargetEpoch(7)),
        "0006000167",
        "00000000000700",
    ),
    "target": (
        records.target_record("g", "m", TARGET),
        "000700016700016d",
        "00000201020304050607081112131415161718040000000000000001000000050000",
    ),
    "member": (
        records.member_record("g", MEMBER),
        "000500016700016d",
        "00000269000263092f312e322e332e34030261026204782e2a000493e00672616e676501000100",
    ),
    "classic member": (
        records.member_record("g", CLASSIC),
        "000500016700016d",
        "00000269000263092f312e322e332e34030261026200000493e00672616e6765010011010000afc8020672616e67650301020000",
    ),
    "current": (
        records.current_record("g", MEMBER),
        "000800016700016d",
        "0000000000090000000801020102030405060708111213141516171803000000000000000101000903000000030000000902"
        "010203040506070811121314151617180200000004010005020000000200",
    ),
    "pattern": (
        records.pattern_record("g", "x.*", MATCHES),
        "00100001670003782e2a",
        "000003037861037862000000000000002a000000000000006300",
    ),
}


@pytest.mark.parametrize("name", KAFKAS)
def test_a_record_is_as_kafka_writes_it(name: str) -> None:
    record, key, value = KAFKAS[name]
    assert (record.key.hex(), (record.value or b"").hex()) == (key, value)


@pytest.mark.parametrize(
    ("name", "read", "expected"),
    [
        ("group", records.read_group, GroupEpoch(7, -5)),
        ("group without a hash", records.read_group, GroupEpoch(7)),
        ("target epoch", records.read_target_epoch, TargetEpoch(7, 1234567)),
        ("target epoch without a time", records.read_target_epoch, TargetEpoch(7)),
        ("target", records.read_target, TARGET),
        ("pattern", records.read_matches, MATCHES),
    ],
)
def test_a_value_is_read_back(name: str, read: Callable[[bytes], object], expected: object) -> None:
    assert read(value_of(KAFKAS[name][0])) == expected


@pytest.mark.parametrize("member", [MEMBER, CLASSIC, Member("m")])
def test_a_member_is_put_together_from_two_records(member: Member) -> None:
    described = records.read_member(value_of(records.member_record("g", member)), Member("m"))
    assert records.read_current(value_of(records.current_record("g", member)), described) == member


def test_without_a_word_about_the_protocol_a_member_is_a_classic_one() -> None:
    value = value_of(records.member_record("g", MEMBER))
    assert value.endswith(b"\1\0\1\0")
    assert records.read_member(value[:-4] + b"\0", Member("m")).classic == ClassicMember()


def test_partitions_without_epochs_were_assigned_in_the_members() -> None:
    with_epochs = value_of(records.current_record("g", MEMBER._replace(revoking={})))
    start = with_epochs.index(b"\1\0\x09")
    assert records.read_current(with_epochs[:start] + b"\0\1\0", Member("m")).assigned == {TOPIC: {0: 9, 1: 9}}


def test_a_state_that_is_not_known_is_called_so() -> None:
    value = bytearray(value_of(records.current_record("g", MEMBER)))
    value[10] = 9
    assert records.read_current(bytes(value), Member("m")).state is MemberState.UNKNOWN


def test_names_of_a_key() -> None:
    assert read_names(records.deletion(records.CURRENT, "grüppe", "m-1").key) == ["grüppe", "m-1"]


@pytest.mark.parametrize("name", KAFKAS)
def test_a_value_that_is_cut_short_is_refused(name: str) -> None:
    value = value_of(KAFKAS[name][0])
    readers: dict[str, Callable[[bytes], object]] = {
        "group": records.read_group, "target epoch": records.read_target_epoch, "target": records.read_target,
        "member": lambda cut: records.read_member(cut, Member("m")),
        "classic member": lambda cut: records.read_member(cut, Member("m")),
        "current": lambda cut: records.read_current(cut, Member("m")), "pattern": records.read_matches,
    }  # fmt: skip
    read = readers[name.removesuffix(" without a hash").removesuffix(" without a time")]
    for size in range(2, len(value)):
        with pytest.raises(OttlaError):
            read(value[:size])


def test_a_version_of_tomorrow_is_refused() -> None:
    with pytest.raises(OttlaError, match="version 1"):
        records.read_group(b"\0\1\0\0\0\1\0")
