"""What a client sends is what every client gets: codecs, headers, nulls, sizes, keys, acks."""

from __future__ import annotations

import pytest
from tests.interop.clients import CLIENTS, Client, Refused, Sent
from tests.interop.conftest import NewTopic

from ottla.testing.process import NodeProcess

PAIRS = [(client, codec) for client in CLIENTS for codec in client.codecs]
MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE = 10, 18


@pytest.mark.parametrize(("writer", "codec"), PAIRS, ids=lambda x: x if isinstance(x, str) else x.name)
def test_every_codec_of_every_client_is_read_by_all(
    node: NodeProcess, new_topic: NewTopic, writer: Client, codec: str
) -> None:
    topic = new_topic()
    sent = [Sent(b"key %d" % n, b"value %d " % n * 40) for n in range(300)]
    places = writer.produce(node.address, topic, sent, codec=codec)
    assert places == [(0, n) for n in range(300)]
    for reader in CLIENTS:
        if codec not in reader.codecs:
            continue
        received = reader.consume(node.address, topic, 300)
        assert [(r.key, r.value) for r in received] == [(s.key, s.value) for s in sent], reader.name
        assert [r.offset for r in received] == list(range(300)), reader.name


def test_headers_nulls_and_empty_values_come_back_as_they_were(
    node: NodeProcess, new_topic: NewTopic, client: Client
) -> None:
    topic = new_topic()
    sent = [
        Sent(None, b"no key"),
        Sent(b"no value", None),
        Sent(b"", b""),
        Sent(b"k", b"v", (("one", b"1"), ("one", b"twice"), ("empty", b""), ("ünïcode ☂", b"\x00\xff"))),
        Sent(b"\x00" * 300, b"\xff" * 70_000),
    ]
    client.produce(node.address, topic, sent)
    for reader in CLIENTS:
        received = reader.consume(node.address, topic, len(sent))
        assert [(r.key, r.value, r.headers) for r in received] == [(s.key, s.value, s.headers) for s in sent]


def test_a_record_of_just_max_message_bytes_goes_in_and_one_byte_more_does_not(
    node: NodeProcess, new_topic: NewTopic, client: Client
) -> None:
    limit = 300_000
    topic = new_topic(max_message_bytes=limit)
    # An uncompressed batch of one record without key: 61 bytes of header, 11 around the value (its length takes three).
    fits = limit - 61 - 11
    assert client.produce(node.address, topic, [Sent(None, b"x" * fits)], max_request=1_000_000) == [(0, 0)]
    with pytest.raises(Refused) as refused:
        client.produce(node.address, topic, [Sent(None, b"x" * (fits + 1))], max_request=1_000_000)
    assert refused.value.code in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE)
    (received,) = client.consume(node.address, topic, 1)
    assert received.value is not None and len(received.value) == fits


def test_a_record_larger_than_all_fetch_limits_still_gets_through(
    node: NodeProcess, new_topic: NewTopic, client: Client
) -> None:
    topic = new_topic(max_message_bytes=12_000_000)
    large = b"L" * 9_000_000
    sent = [Sent(b"a", b"before"), Sent(b"b", large), Sent(b"c", b"after")]
    for one in sent:
        client.produce(node.address, topic, [one], max_request=11_000_000)
    for reader in CLIENTS:
        received = reader.consume(node.address, topic, 3, fetch_max=10_000, partition_max=5_000)
        assert [r.value for r in received] == [b"before", large, b"after"], reader.name


def test_records_go_to_the_partition_that_is_asked_for_and_keep_their_order(
    node: NodeProcess, new_topic: NewTopic, client: Client
) -> None:
    topic = new_topic(partitions=5)
    sent = [Sent(None, b"%d" % n, partition=n % 5) for n in range(500)]
    places = client.produce(node.address, topic, sent)
    assert places == [(n % 5, n // 5) for n in range(500)]
    received = client.consume(node.address, topic, 500)
    for partition in range(5):
        mine = [r.value for r in received if r.partition == partition]
        assert mine == [b"%d" % n for n in range(500) if n % 5 == partition]


def test_one_key_always_lands_on_one_partition(node: NodeProcess, new_topic: NewTopic, client: Client) -> None:
    topic = new_topic(partitions=4)
    places = client.produce(node.address, topic, [Sent(b"key-%d" % (n % 16), b"%d" % n) for n in range(160)])
    partitions = [{place[0] for place in places[key::16]} for key in range(16)]
    assert all(len(seen) == 1 for seen in partitions)
    assert len(set.union(*partitions)) > 1


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_records_arrive_whatever_acks_are_asked_for(
    node: NodeProcess, new_topic: NewTopic, client: Client, acks: int
) -> None:
    topic = new_topic()
    places = client.produce(node.address, topic, [Sent(None, b"%d" % n) for n in range(100)], acks=acks)
    if acks != 0:
        assert places == [(0, n) for n in range(100)]
    assert [r.value for r in client.consume(node.address, topic, 100)] == [b"%d" % n for n in range(100)]


def test_an_idempotent_producer_writes_each_record_once_and_in_order(
    node: NodeProcess, new_topic: NewTopic, client: Client
) -> None:
    topic = new_topic(partitions=2)
    sent = [Sent(None, b"%d" % n, partition=n % 2) for n in range(5000)]
    places = client.produce(node.address, topic, sent, idempotent=True)
    assert places == [(n % 2, n // 2) for n in range(5000)]
    received = client.consume(node.address, topic, 5000, read_committed=True)
    for partition in range(2):
        assert [int(r.value or b"-1") for r in received if r.partition == partition] == list(range(partition, 5000, 2))
