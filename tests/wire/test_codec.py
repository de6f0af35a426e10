"""Every message of every version goes out and comes back; what is malformed raises one thing only."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.api_versions import v0, v4
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.schema.metadata import v1 as metadata_v1
from kio.schema.metadata import v12 as metadata_v12
from kio.schema.offset_commit.v4.request import OffsetCommitRequest
from kio.static.constants import EntityType
from tests.wire.messages import ALL_KEYS, encode_with_unknown_tags, sample, schemas, versions

from ottla.wire import codec
from ottla.wire.codec import MalformedRequest, UnsupportedVersion, decode_request, decode_response
from ottla.wire.varint import uvarint

ROUNDS = 3


def decode(entity_type: type[Any], data: Any) -> Any:
    function = decode_request if entity_type.__type__ is EntityType.request else decode_response
    return function(entity_type.__api_key__, entity_type.__version__, data)


@pytest.mark.parametrize("key", ALL_KEYS)
def test_every_version_comes_back_as_it_went_out(key: int) -> None:
    random = Random(key)
    for entity_type in schemas(key):
        for _ in range(ROUNDS):
            entity = sample(entity_type, random)
            data = codec.encode_body(entity)

            assert data == encode_with_unknown_tags(entity, None), "the tests' own encoder does as kio does"
            assert decode(entity_type, data) == entity


@pytest.mark.parametrize("key", ALL_KEYS)
def test_unknown_tagged_fields_are_skipped_at_every_level(key: int) -> None:
    random = Random(key)
    for entity_type in schemas(key):
        for _ in range(ROUNDS):
            entity = sample(entity_type, random)

            assert decode(entity_type, encode_with_unknown_tags(entity, random)) == entity


@pytest.mark.parametrize("key", ALL_KEYS)
def test_damage_raises_malformed_and_nothing_else(key: int) -> None:
    random = Random(key)
    for entity_type in schemas(key):
        for extra in (None, random):
            data = bytearray(encode_with_unknown_tags(sample(entity_type, random), extra))
            for _ in range(10):
                damaged = bytearray(data)
                match random.randrange(4):
                    case 0:
                        del damaged[random.randrange(len(damaged) + 1) :]
                    case 1 if damaged:
                        damaged[random.randrange(len(damaged))] = random.getrandbits(8)
                    case 2:
                        damaged[random.randrange(len(damaged) + 1) :][:0] = random.randbytes(3)
                    case _:
                        at = random.randrange(len(damaged) + 1)
                        damaged[at : at + 4] = random.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0"])
                try:
                    decode(entity_type, damaged)
                except MalformedRequest:
                    pass


@given(st.sampled_from([key for key in ALL_KEYS if key < 40]), st.binary(max_size=60))
def test_garbage_raises_malformed_and_nothing_else(key: int, garbage: bytes) -> None:
    for version in versions(key)[-1:]:
        try:
            decode_request(key, version, garbage)
        except MalformedRequest:
            pass


@pytest.mark.parametrize(
    ("version", "claim"),
    [
        (1, (2**31 - 1).to_bytes(4, "big")),
        (12, b"\xff\xff\xff\xff\x07"),
        (12, b"\x80\x80\x80\x80\x08"),  # 2**31, and one less is the largest that Java knows
    ],
)
def test_an_array_longer_than_the_message_is_refused_before_memory_is_reserved(version: int, claim: bytes) -> None:
    with pytest.raises(MalformedRequest, match="array at byte 0 says"):
        decode_request(3, version, claim + bytes(30))


@pytest.mark.parametrize(
    ("version", "claim"),
    [
        (1, (-2).to_bytes(4, "big", signed=True)),
        (12, b"\xff\xff\xff\xff\x0f"),  # 2**32 - 1: kio's decoder would end the process
        (12, b"\xff\xff\xff\xff\x7f"),
    ],
)
def test_a_negative_length_means_null_as_in_kafka(version: int, claim: bytes) -> None:
    assert decode_request(3, version, claim + bytes(3)).topics is None
    with pytest.raises(MalformedRequest, match="array at byte 0 says"):  # DeleteRecords, where null must not be
        decode_request(21, 0 if version == 1 else 2, claim)


@pytest.mark.parametrize(
    ("body", "name", "allowed"),
    [
        (b"\x02" + bytes(16) + b"\x04a\xffb\x00" + b"\x01\x00\x00", "a\ufffdb", True),
        (b"\x02" + bytes(16) + b"\x02a\x00" + b"\x02\x00\x00", "a", True),
        (b"\x02" + bytes(16) + b"\x02a\xff\xff\xff\xff\x0f" + b"\x00\x00\x00", "a", False),
    ],
    ids=["not UTF-8", "a boolean of 2", "-1 tagged fields"],
)
def test_what_kafka_puts_up_with_is_put_up_with(body: bytes, name: str, allowed: bool) -> None:
    request = decode_request(3, 12, body)

    assert (request.topics[0].name, request.allow_auto_topic_creation) == (name, allowed)


def test_of_a_known_tagged_field_the_size_is_not_looked_at_and_the_last_one_counts() -> None:
    rest = bytes(4 * 3 + 1 + 4 * 2) + b"\x01\x01\x01"  # no topics, no forgotten ones, no rack
    first, second = b"\x00\x63\x02a", b"\x00\x00\x02b"  # tag 0, the cluster's id, with two wrong sizes

    request = decode_request(1, 17, rest + b"\x02" + first + second)

    assert request.cluster_id == "b"


def test_a_text_of_more_than_32767_bytes_is_malformed() -> None:
    with pytest.raises(MalformedRequest, match="32767 are allowed"):
        decode_request(75, 0, b"\x02" + uvarint(32769) + b"x" * 32768 + b"\x00" + bytes(4) + b"\xff\x00")


def test_bytes_after_the_message_are_ignored_as_kafka_does() -> None:
    request = metadata_v12.MetadataRequest(
        topics=None, allow_auto_topic_creation=True, include_topic_authorized_operations=False
    )

    assert decode_request(3, 12, codec.encode_body(request) + b"more") == request


@pytest.mark.parametrize("wrapper", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))])
def test_any_buffer_will_do(wrapper: Any) -> None:
    request = metadata_v1.MetadataRequest(topics=())

    assert decode_request(3, 1, wrapper(codec.encode_body(request))) == request


def test_an_error_code_newer_than_we_are_is_an_unknown_error() -> None:
    data = bytearray(codec.encode_body(v0.ApiVersionsResponse(error_code=ErrorCode.none, api_keys=())))
    data[:2] = (9999).to_bytes(2, "big")

    assert decode_response(18, 0, data).error_code == ErrorCode.unknown_server_error


def test_a_duration_without_end_is_as_long_as_can_be_said() -> None:
    data = encode_with_unknown_tags(sample(OffsetCommitRequest, Random(1)), None)
    retention = decode_request(8, 4, data).retention_time
    encoded = (round(retention.total_seconds() * 1000)).to_bytes(8, "big")
    assert data.count(encoded) == 1

    forever = decode_request(8, 4, data.replace(encoded, (2**63 - 1).to_bytes(8, "big")))

    assert forever.retention_time.days > 100_000_000


@pytest.mark.parametrize(("key", "version"), [(0, 2), (3, 99), (4, 0), (999, 0), (-1, 0), (3, -1)])
def test_what_has_no_schema_is_an_unsupported_version(key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        decode_request(key, version, b"")


# Headers


def test_the_table_of_flexible_versions_agrees_with_the_schemas() -> None:
    assert set(codec.FIRST_FLEXIBLE) == set(api_key_map)
    for key in ALL_KEYS:
        for entity_type in schemas(key):
            assert codec.is_flexible(key, entity_type.__version__) == entity_type.__flexible__
            header = entity_type.__header_schema__
            if entity_type.__type__ is EntityType.request:
                expected = codec.request_header(key, entity_type.__version__, 7, "me")
                made = header(
                    request_api_key=key, request_api_version=entity_type.__version__, correlation_id=7, client_id="me"
                )
            else:
                expected = codec.response_header(key, entity_type.__version__, 7)
                made = header(correlation_id=7)
            assert codec.encode_body(made) == expected


@pytest.mark.parametrize(("key", "version"), [(3, 1), (3, 12), (18, 0), (18, 4), (18, 99), (17, 1)])
@pytest.mark.parametrize("client_id", ["", "rdkafka", "größe"])
def test_a_request_header_comes_back(key: int, version: int, client_id: str) -> None:
    frame = codec.request_header(key, version, 12345, client_id) + b"body"

    header = codec.parse_request_header(memoryview(frame))

    assert header[:4] == (key, version, 12345, client_id)
    assert frame[header.body :] == b"body"


def test_a_client_id_may_be_null_and_need_not_be_utf8() -> None:
    null = codec.parse_request_header(b"\x00\x03\x00\x01\x00\x00\x00\x07\xff\xff")
    odd = codec.parse_request_header(b"\x00\x03\x00\x01\x00\x00\x00\x07\x00\x01\xff")

    assert null.client_id is None
    assert odd.client_id == "\ufffd"


def test_tagged_fields_of_a_request_header_are_skipped() -> None:
    plain = codec.request_header(3, 12, 1, "me")
    frame = plain[:-1] + b"\x02" + b"\x05\x03abc" + b"\x80\x01\x00" + b"body"

    assert frame[codec.parse_request_header(frame).body :] == b"body"


@given(st.binary(max_size=30))
def test_a_broken_request_header_is_malformed(garbage: bytes) -> None:
    for start in (b"", b"\x00\x03\x00\x0c", b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x00"):
        try:
            header = codec.parse_request_header(start + garbage)
        except MalformedRequest:
            continue
        assert header.body <= len(start + garbage)


def test_api_versions_answers_with_the_old_header_so_that_any_client_can_read_it() -> None:
    assert codec.response_header(18, 4, 1) == codec.response_header(18, 0, 1) == b"\x00\x00\x00\x01"
    assert codec.response_header(3, 12, 1) == b"\x00\x00\x00\x01\x00"


@pytest.mark.parametrize(
    "entity",
    [
        sample(v4.ApiVersionsResponse, Random(1)),
        sample(metadata_v1.MetadataResponse, Random(1)),
        sample(metadata_v12.MetadataResponse, Random(1)),
    ],
)
def test_a_response_frame_is_size_header_and_body(entity: Any) -> None:
    frame = codec.response_frame(99, entity)

    key, version = entity.__api_key__, entity.__version__
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4:] == codec.response_header(key, version, 99) + codec.encode_body(entity)
    body = frame[4:][codec.response_body_position(key, version, frame[4:]) :]
    assert decode_response(key, version, body) == entity
