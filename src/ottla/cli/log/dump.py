"""`ottla log dump`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.output import ItemStream, cell, output_option, print_table, shown
from ottla.cli.output import count as counted
from ottla.cli.terminal_text import one_line
from ottla.cli.times import iso

if TYPE_CHECKING:
    from ottla.cli.log.finding import LogFile

SHORT: Final = 200


@click.command("dump")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True), metavar="PATH...")
@click.option("-B", "--batches", "batches_only", is_flag=True, help="Only the batches, not their records.")
@click.option("-i", "--indexes", is_flag=True, help="In a folder, also every entry of its indexes.")
@click.option("-o", "--from-offset", type=int, default=0, help="Leave out batches that end before this offset.")
@click.option("-n", "--count", type=click.IntRange(min=1), help="End after so many batches.")
@click.option("-w", "--whole", is_flag=True, help=f"Do not cut keys and values after {SHORT} characters.")
@output_option
def command(
    paths: tuple[str, ...],
    batches_only: bool,
    indexes: bool,
    from_offset: int,
    count: int | None,
    whole: bool,
    output: str | None,
) -> None:
    """Print what is in files of a log: a segment, a partition's folder, or a log dir with all of them.

    It reads the files of Ottla and of Apache Kafka, also while a broker runs, and changes nothing. Records of
    __cluster_metadata are shown by their fields.
    """
    from ottla.cli.log.content import batch_items, entries
    from ottla.cli.log.finding import Kind, find

    printer = _Stream(output) if output in ("json", "yaml") else _Text(None if whole else SHORT)
    left = count
    for path in paths:
        folders = find(path)
        for file in (file for folder in folders for file in folder.files):
            is_index = file.kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX)
            if file.kind not in (Kind.LOG, Kind.SNAPSHOT):
                listed = file.path == path or indexes or not is_index
                printer.entries(file, entries(file), listed=listed)
                continue
            printer.begin(file)
            for item in batch_items(file, with_records=not batches_only, from_offset=from_offset):
                if left == 0:
                    break
                printer.batch(file, item)
                left = None if left is None else left - 1
    printer.end()


class _Stream:
    def __init__(self, output: str) -> None:
        self._stream = ItemStream(output)

    def begin(self, file: LogFile) -> None:
        pass

    def batch(self, file: LogFile, item: dict[str, Any]) -> None:
        self._stream.write({"file": file.path, "kind": file.kind.value, **item})

    def entries(self, file: LogFile, found: list[dict[str, Any]], *, listed: bool) -> None:
        shown = {"entries": found} if listed else {"count": len(found), "first": found[:1], "last": found[-1:]}
        self._stream.write({"file": file.path, "kind": file.kind.value, **shown})

    def end(self) -> None:
        self._stream.end()


class _Text:
    def __init__(self, cut: int | None) -> None:
        self._cut = cut
        self._any = False

    def begin(self, file: LogFile) -> None:
        click.echo(("\n" if self._any else "") + click.style(shown(f"{file.path}  ({file.kind.value})"), bold=True))
        self._any = True

    def batch(self, file: LogFile, item: dict[str, Any]) -> None:
        if "batch" in item:
            click.echo(_batch_line(item))
        if "unreadable" in item:
            click.echo(f"  at {item['position']}: {shown(item['unreadable'])}")
        for record in item.get("content", ()):
            click.echo(f"  {one_line(self._record_line(record))}")

    def entries(self, file: LogFile, found: list[dict[str, Any]], *, listed: bool) -> None:
        self.begin(file)
        if not found:
            click.echo("empty")
        elif listed:
            print_table([key.upper() for key in found[0]], [[cell(v) for v in row.values()] for row in found], "table")
        else:
            ends = " to ".join(
                " ".join(f"{key} {value}" for key, value in row.items()) for row in (found[0], found[-1])
            )
            click.echo(f"{len(found):,} entr{'y' if len(found) == 1 else 'ies'}: {ends}")

    def end(self) -> None:
        pass

    def _record_line(self, record: dict[str, Any]) -> str:
        line = f"{record['offset']}  {iso(record['timestamp'])}"
        if "unreadable" in record:
            return f"{line}  {record['unreadable']}"
        if "control" in record or "type" in record:
            name = f"{record['type']} v{record['version']}" if "type" in record else record["control"]
            fields = dict(record.get("fields") or {})
            if "coordinator_epoch" in record:
                fields["coordinator_epoch"] = record["coordinator_epoch"]
            return f"{line}  {name}  {'  '.join(f'{key}={_field(value)}' for key, value in fields.items())}".rstrip()
        parts = [f"{name}={self._text(record, name)}" for name in ("key", "value")]
        if "headers" in record:
            names, values = record["headers"][::2], record["headers"][1::2]
            parts.append(
                "headers="
                + ",".join(
                    f"{name}:{'NULL' if value is None else value}" for name, value in zip(names, values, strict=True)
                )
            )
        return f"{line}  {'  '.join(parts)}"

    def _text(self, record: dict[str, Any], name: str) -> str:
        value = record[name]
        if value is None:
            return "NULL"
        text = value if self._cut is None or len(value) <= self._cut else f"{value[: self._cut]}... ({len(value)})"
        return f"base64:{text}" if f"{name}_encoding" in record else text


def _batch_line(item: dict[str, Any]) -> str:
    parts = [
        f"{item['batch']}..{item['last_offset']}",
        f"at {item['position']}",
        f"{item['size']} bytes",
        counted(item["records"], "record"),
        iso(item["max_timestamp"]) + (" (append time)" if item["timestamp_type"] == "LogAppendTime" else ""),
        f"leader epoch {item['leader_epoch']}",
    ]
    if item["compression"] != "none":
        parts.append(str(item["compression"]))
    if "producer_id" in item:
        sequence = f"sequence {item['first_sequence']}..{item['last_sequence']}"
        parts.append(f"producer {item['producer_id']} epoch {item['producer_epoch']} {sequence}")
        if item["transactional"]:
            parts.append("transactional")
    if item.get("control"):
        parts.append("control")
    if item["crc"] != "ok":
        parts.append(click.style("CRC WRONG", bold=True))
    return ", ".join(parts)


def _field(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + " ".join(f"{key}={_field(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_field, value)) + "]"
    return "NULL" if value is None else str(value)
