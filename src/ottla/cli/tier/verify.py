"""`ottla tier verify`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import Column, count, may_go_on, note, output_option, print_rows
from ottla.cli.tier.store_options import store_options
from ottla.model.errors import OttlaError

if TYPE_CHECKING:
    from ottla.cli.tier.known import Known
    from ottla.env.object_store import ObjectStore
    from ottla.tier.told import Logs
    from ottla.tier.verifying import Finding, Verified

COLUMNS: Final = (
    Column("PROBLEM", "problem"),
    Column("OBJECT", "object"),
    Column("BYTES", "bytes"),
    Column("WHAT", "what"),
)


@click.command("verify")
@click.option("--quick", is_flag=True, help="Compare names and sizes only; by default every byte is read and checked.")
@click.option("--repair", is_flag=True, help="Delete objects that belong to no segment: what crashes have left.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before something is deleted.")
@store_options
@output_option
@cluster_options
def command(
    quick: bool, repair: bool, yes: bool, open_store: Callable[[], ObjectStore], output: str | None, cluster: Cluster
) -> None:
    """Check that the store has what the metadata topic says, byte by byte, and nothing else.

    Ends with 1 if something is missing or damaged, or if unknown objects are left.
    """
    found, deleted = asyncio.run(_verify(open_store(), cluster, deep=not quick, repair=repair, yes=yes))
    rows = [
        {"problem": each.problem.value, "object": each.key, "bytes": each.size, "what": each.message}
        for each in found.findings
    ]
    if rows or output is not None:
        print_rows(output, COLUMNS, rows)
    how = "compared" if quick else "read and checked"
    note(
        f"{count(found.segments, 'segment')}, {count(found.objects, 'object')}, {found.bytes} bytes {how}: "
        + (f"{count(len(rows), 'problem')}." if rows else "all is well.")
    )
    if deleted:
        note(f"{count(deleted, 'unknown object')} deleted.")
    if len(rows) > deleted:
        sys.exit(1)


def _parted(unknown: list[Finding], told: Known) -> tuple[list[Finding], list[Finding]]:
    """What crashes of this cluster have left, and what is perhaps another one's: copies are announced before they are
    made, so of its own partitions it has told."""
    from ottla.tier.layout import parse_key

    ours: list[Finding] = []
    others: list[Finding] = []
    for each in unknown:
        name = parse_key(each.key)
        is_ours = name is not None and (name.of.topic_id, name.of.partition) in told.names
        (ours if is_ours else others).append(each)
    return ours, others


async def _verify(store: ObjectStore, cluster: Cluster, *, deep: bool, repair: bool, yes: bool) -> tuple[Verified, int]:
    from ottla.cli.tier.known import read_known
    from ottla.tier.verifying import Problem, verify

    async def known() -> Logs:
        return (await asyncio.to_thread(read_known, cluster)).logs

    try:
        told = await asyncio.to_thread(read_known, cluster)
        found = await verify(store, told.logs, await store.list(""), known, deep=deep)
        unknown = found.of(Problem.UNKNOWN)
        if not (repair and unknown):
            return found, 0
        unknown, others = _parted(unknown, told)
        if others:
            note(f"{count(len(others), 'object')} of partitions that this cluster never copied: left where they are.")
        if not unknown:
            return found, 0
        if found.segments and len(found.of(Problem.MISSING)) >= found.segments:
            raise OttlaError("nothing is deleted: the segments of this cluster are not there. Is it the right store?")
        some = f"{count(len(unknown), 'unknown object')} from the store, such as {unknown[0].key}"
        may_go_on(f"Delete {some}?", yes)
        await store.delete([each.key for each in unknown])
        return found, len(unknown)
    finally:
        await store.close()
