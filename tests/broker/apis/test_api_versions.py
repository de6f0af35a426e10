from __future__ import annotations

import socket
import struct

import pytest
from tests.broker.apis.asking import API_VERSIONS, ask
from tests.waiting import PATIENCE_S

from ottla.model.errors import ErrorCode


def raw_answer(address: str, version: int) -> bytes:
    """The frame, without its size, that comes back for an ApiVersions request with an empty body."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as client, client.makefile("rb") as stream:
        frame = struct.pack(">hhih", API_VERSIONS, version, 77, -1) + b"\x00"
        client.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", stream.read(4))
        return stream.read(size)


@pytest.mark.parametrize("version", [5, 99, -1])
def test_an_unknown_version_is_answered_in_version_0_with_this_api_alone(address: str, version: int) -> None:
    frame = raw_answer(address, version)

    correlation_id, code, count, key, oldest, newest = struct.unpack(">ihihhh", frame)
    assert (correlation_id, code) == (77, ErrorCode.unsupported_version)
    assert (count, key, oldest, newest) == (1, API_VERSIONS, 0, 4)


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("a", ""), ("-a", "1"), ("a b", "1"), ("a", "1_0"), ("ä", "1")]
)
def test_client_software_with_an_odd_name_is_refused(address: str, name: str, version: str) -> None:
    answer = ask(address, API_VERSIONS, 3, client_software_name=name, client_software_version=version)

    assert answer.error_code is ErrorCode.invalid_request
    assert answer.api_keys == ()


def test_features_are_those_the_cluster_runs_with(address: str) -> None:
    answer = ask(address, API_VERSIONS, 4, client_software_name="test", client_software_version="1.0")

    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    supported = {feature.name: (feature.min_version, feature.max_version) for feature in answer.supported_features}
    assert finalized == {
        "metadata.version": 30,
        "group.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
    }
    assert supported["metadata.version"] == (7, 30)
    assert supported["group.version"] == (0, 1)
    assert answer.finalized_features_epoch > 0


def test_a_feature_that_starts_at_level_0_is_not_told_before_version_4(address: str) -> None:
    answer = ask(address, API_VERSIONS, 3, client_software_name="test", client_software_version="1.0")

    assert all(feature.min_version > 0 for feature in answer.supported_features)
