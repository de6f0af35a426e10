"""`ottla topic describe`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.output import Column, count, is_terminal, note, output_option, print_rows, print_value, shown
from ottla.cli.topic.partition_state import State


def _lag(row: Mapping[str, Any]) -> str:
    """Of those that are behind: replica:records. A replica whose broker does not answer is not known."""
    lags = row["lag"]
    if lags is None:
        return "-"
    return " ".join(f"{node}:{'?' if lag is None else lag}" for node, lag in lags.items() if lag != 0) or "0"


def _dirty(row: Mapping[str, Any]) -> str:
    """What share of a compacted partition is not clean, or why nobody sees to it."""
    state = row["compaction"]
    if state is None:
        return "-"
    total = state["dirty_bytes"] + state["clean_bytes"]
    share = f"{100 * state['dirty_bytes'] // total if total else 0} %"
    return share if state["state"] == "idle" else f"{share} {state['state']}"


DIRTY: Final = Column("DIRTY", _dirty)
ELIGIBLE: Final = Column("ELIGIBLE", "eligible")
COLUMNS: Final = (
    Column("PARTITION", "partition"),
    Column("LEADER", "leader"),
    Column("EPOCH", "leader_epoch"),
    Column("REPLICAS", "replicas"),
    Column("IN SYNC", "in_sync"),
    Column("BEGINS", "begins"),
    Column("ENDS", "ends"),
    Column("LAG", _lag),
    DIRTY,
    ELIGIBLE,
)
SELECTED: Final = (Column("TOPIC", "topic"), *(column for column in COLUMNS if column.heading != "EPOCH"))
FILTERS: Final = {
    State.UNDER_REPLICATED: "Only partitions with replicas that are not in sync.",
    State.UNDER_MIN_ISR: "Only partitions with fewer replicas in sync than min.insync.replicas.",
    State.AT_MIN_ISR: "Only partitions with just as many in sync as min.insync.replicas.",
    State.UNAVAILABLE: "Only partitions without a leader.",
}


def _filters(function: Any) -> Any:
    for state, text in reversed(FILTERS.items()):
        name = state.value.replace("-", "_")
        function = click.option(f"--{state.value}", f"--{state.value}-partitions", name, is_flag=True, help=text)(
            function
        )
    return function


@click.command("describe")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=topic_names)
@_filters
@output_option
@cluster_options
def command(names: tuple[str, ...], output: str | None, cluster: Cluster, **given: bool) -> None:
    """Show partitions, leaders, replicas, offsets and configs of topics.

    With a filter, only the partitions that it selects, of all topics if none is named. LAG names the replicas that are
    behind their leader, and by how many records; ELIGIBLE those that are not in sync but have all that was committed;
    DIRTY what share of a compacted partition's leader is not compacted yet.
    """
    from ottla.cli.admin import session

    wanted = frozenset(state for state in FILTERS if given[state.value.replace("-", "_")])
    if not names and not wanted:
        options = ", ".join(f"--{state.value}" for state in FILTERS)
        raise click.UsageError(f"which topics? Give names, or one of {options} for those of all topics")

    async def ask(there: session.Session) -> list[dict[str, Any]]:
        from ottla.cli.topic.description import described

        return await described(there, names or None, wanted)

    found = session.run(cluster, ask)
    if output in ("json", "yaml"):
        print_value(output, found)
    elif wanted:
        _print_selected(output, found, wanted)
    else:
        _print_topics(output, found)


def _print_selected(output: str | None, found: Sequence[Mapping[str, Any]], wanted: frozenset[State]) -> None:
    rows = [{"topic": topic["topic"], **part} for topic in found for part in topic["partitions"]]
    if rows or output == "table":
        print_rows(output, _columns(output, SELECTED, rows), rows)
    states = " or ".join(sorted(state.value for state in wanted))
    note(f"{count(len(rows), 'partition')} {states}." if rows else f"No partition is {states}.")


def _print_topics(output: str | None, found: Sequence[Mapping[str, Any]]) -> None:
    for number, topic in enumerate(found):
        if number:
            click.echo()
        click.echo(click.style(shown(topic["topic"]), bold=True))
        click.echo(f"  id          {topic['id']}")
        click.echo(f"  partitions  {len(topic['partitions'])}")
        click.echo(f"  replicas    {topic['replicas']}")
        for i, (name, value) in enumerate(topic["configs"].items()):
            click.echo(f"  {'' if i else 'configs':10}  {shown(name)}={shown(value)}")
        print_rows(output, _columns(output, COLUMNS, topic["partitions"]), topic["partitions"])


def _columns(
    output: str | None, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]
) -> list[Column]:  # fmt: skip
    """A person is spared a column that says nothing."""
    for_person = output == "table" or is_terminal()
    silent = []
    if for_person and not any(row["eligible"] for row in rows):
        silent.append(ELIGIBLE)
    if for_person and not any(row["compaction"] for row in rows):
        silent.append(DIRTY)
    return [column for column in columns if column not in silent]
