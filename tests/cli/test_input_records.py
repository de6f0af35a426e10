"""Records from what a user types, pipes or has in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli import input_records
from ottla.cli.input_records import Input, NewRecord, Splitting, inputs, json_records, split_record
from ottla.model.errors import OttlaError


@pytest.mark.parametrize(
    ("line", "how", "record"),
    [
        (b"v", Splitting(), NewRecord(None, b"v")),
        (b"k:v:w", Splitting(b":"), NewRecord(b"k", b"v:w")),
        (b":v", Splitting(b":"), NewRecord(b"", b"v")),
        (b"k:", Splitting(b":", empty_is_null=True), NewRecord(b"k", None)),
        (b":v", Splitting(b":", empty_is_null=True), NewRecord(None, b"v")),
        (b"", Splitting(empty_is_null=True), NewRecord(None, None)),
        (b"v", Splitting(key=b"k"), NewRecord(b"k", b"v")),
        (b"k", Splitting(tombstone=True), NewRecord(b"k", None)),
        (b"k=NULL", Splitting(b"=", null_marker=b"NULL"), NewRecord(b"k", None)),
        (b"NULL=v", Splitting(b"=", null_marker=b"NULL"), NewRecord(None, b"v")),
    ],
)
def test_a_line_becomes_a_record(line: bytes, how: Splitting, record: NewRecord) -> None:
    assert split_record(line, "line 1", how) == record


def test_a_line_without_the_separator_is_refused_with_its_number() -> None:
    with pytest.raises(OttlaError, match=r"line 3 has no ':' between key and value: 'value'"):
        split_record(b"value", "line 3", Splitting(b":"))


def test_files_are_read_by_line_by_delimiter_or_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"a\r\nb;c\n\nd")
    lines = [Input(data, f"{file}, line {n}") for n, data in enumerate((b"a", b"b;c", b"", b"d"), start=1)]
    assert list(inputs((), [str(file)], b"\n", whole=False)) == lines
    assert [data for data, _ in inputs((), [str(file)], b";", whole=False)] == [b"a\r\nb", b"c\n\nd"]
    assert list(inputs((), [str(file)], b"\n", whole=True)) == [Input(file.read_bytes(), str(file))]
    assert [data for data, _ in inputs(["v"], [str(file)], b";", whole=False)] == [b"v", b"a\r\nb", b"c\n\nd"]


@pytest.mark.parametrize(("delimiter", "whole"), [(b"\n", False), (b";", False), (b"\n", True)])
def test_a_record_that_does_not_end_is_refused_before_it_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch, delimiter: bytes, whole: bool
) -> None:
    monkeypatch.setattr(input_records, "LONGEST", 1_000_000)
    with pytest.raises(OttlaError, match=r"/dev/zero(, line 1)? is longer than a record can be \(1000000 bytes\)"):
        list(inputs((), ["/dev/zero"], delimiter, whole=whole))


def test_a_missing_file_is_told() -> None:
    with pytest.raises(OttlaError, match="cannot read /no/such: No such file"):
        list(inputs((), ["/no/such"], b"\n", whole=False))


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (b'{"payload":"v"}', NewRecord(None, b"v")),
        (b'{"key":"k","value":null}', NewRecord(b"k", None)),
        (b'{"key":1,"value":{"a":[1,2]}}', NewRecord(b"1", b'{"a":[1,2]}')),
        (
            b'{"topic":"t","partition":2,"offset":9,"tstype":"create","ts":5,"headers":["a","1","b",null],"payload":"v"}',
            NewRecord(None, b"v", (("a", b"1"), ("b", None)), 2, 5),
        ),
        (b'{"payload":"/wA=","payload_encoding":"base64","ts":-1}', NewRecord(None, b"\xff\x00")),
        (b'{"payload":"v","headers":{"h":"x"}}', NewRecord(None, b"v", (("h", b"x"),))),
    ],
)
def test_a_line_of_json_becomes_a_record(line: bytes, record: NewRecord) -> None:
    assert list(json_records([Input(line, "line 1"), Input(b" ", "line 2")])) == [record]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "line 7 is not JSON"),
        (b"[]", "line 7 is not a JSON object"),
        (b'{"key":"k"}', "neither payload nor value"),
        (b'{"payload":"v","partition":"1"}', "'1' is not a whole number"),
        (b'{"payload":"v","headers":["a"]}', "headers must be"),
        (b'{"payload":"v","payload_encoding":"rot13"}', "base64 only"),
        (b'{"payload":"v","kye":"k"}', "there is no field kye"),
    ],
)
def test_wrong_json_is_refused_with_its_line(line: bytes, complaint: str) -> None:
    with pytest.raises(OttlaError, match=complaint):
        list(json_records([Input(line, "line 7")]))
