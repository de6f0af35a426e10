"""Records of `__transaction_state`: bytes as Kafka writes them, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.txn.records import read_key, read_value, record_of, tombstone, write_key, write_value
from ottla.coordinator.txn.transaction import Transaction, TxnState
from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition

ONGOING = Transaction(
    1000, 3, 60_000, TxnState.ONGOING, (TopicPartition("t", 0), TopicPartition("t", 2)), 11, 12, 2, 1000
)


def test_the_key_is_its_type_and_the_id() -> None:
    assert write_key("tx").hex() == "000000027478"
    assert read_key(write_key("tx")) == "tx"
    assert read_key(b"\x00\x07" + write_key("tx")[2:]) is None
    assert tombstone("tx").value is None


def test_a_value_of_version_1() -> None:
    assert write_value(ONGOING, 2).hex() == (
        "0001" "00000000000003e8" "0003" "0000ea60" "01"
        "02" "0274" "03" "00000000" "00000002" "00"
        "000000000000000c" "000000000000000b"
        "02" "0008" "00000000000003e8" "0202" "0002"
    )  # fmt: skip


def test_a_value_of_version_0() -> None:
    assert write_value(ONGOING, 0).hex() == (
        "0000" "00000000000003e8" "0003" "0000ea60" "01"
        "00000001" "000174" "00000002" "00000000" "00000002"
        "000000000000000c" "000000000000000b"
    )  # fmt: skip
    assert read_value(write_value(ONGOING, 0)) == ONGOING._replace(client_version=0, previous_producer_id=-1)


def test_an_empty_one_has_no_partitions_at_all() -> None:
    empty = Transaction(1, 0, 5, TxnState.EMPTY)
    assert write_value(empty, 2)[17:18] == b"\x00"
    assert write_value(empty, 0)[17:21] == b"\xff\xff\xff\xff"
    assert read_value(write_value(empty, 2)) == read_value(write_value(empty, 0)) == empty


transactions = st.builds(
    Transaction,
    st.integers(0, 2**62),
    st.integers(-1, 2**15 - 1),
    st.integers(0, 2**31 - 1),
    st.sampled_from([state for state in TxnState if state is not TxnState.EMPTY]),
    st.lists(st.builds(TopicPartition, st.text(max_size=9), st.integers(0, 9)), unique=True).map(
        lambda each: tuple(sorted(each))
    ),
    st.integers(-1, 2**62),
    st.integers(-1, 2**62),
    st.integers(0, 2),
    st.integers(-1, 2**62),
    st.integers(-1, 2**62),
    st.just(-1),
)


@given(st.text(), transactions)
def test_what_is_written_is_read(name: str, transaction: Transaction) -> None:
    record = record_of(name, transaction, 2)
    assert read_key(record.key) == name
    assert record.value is not None
    assert read_value(record.value) == transaction


def test_tagged_fields_of_later_versions_are_passed_over() -> None:
    value = write_value(ONGOING, 2)
    at = len(value) - 15
    assert value[at] == 2
    assert read_value(value[:at] + b"\x03" + value[at + 1 :] + b"\x09\x01\x07") == ONGOING


def test_a_newer_version_is_left_alone() -> None:
    assert read_value(b"\x00\x02" + write_value(ONGOING, 2)[2:]) is None


@pytest.mark.parametrize("damaged", [b"\x00", write_value(ONGOING, 2)[:20], write_value(ONGOING, 2)[:-3]])
def test_damage_is_told(damaged: bytes) -> None:
    with pytest.raises(OttlaError, match="unreadable value"):
        read_value(damaged)
