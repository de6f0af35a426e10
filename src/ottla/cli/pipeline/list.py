"""`ottla pipeline list`."""

from __future__ import annotations

import time
from typing import Any

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import Column, note, output_option, print_rows

_SILENT_S = 30.0


@click.command("list")
@output_option
@cluster_options
def command(output: str | None, cluster: Cluster) -> None:
    """List deployed pipelines: who runs them, how they are doing, and what was wrong last."""
    from ottla.cli.pipeline import deployed
    from ottla.pipeline.service import records

    there = deployed.newest(cluster, records.DEPLOYED)
    told = {name: records.told(value) for name, value in deployed.newest(cluster, records.STATUS).items()}
    if not there and output is None:
        note("No pipeline is deployed.")
        return
    columns = (
        Column("NAME", "name"),
        Column("STATE", "state"),
        Column("WORKER", "worker"),
        Column("RESTARTS", "restarts"),
        Column("BEHIND", "behind"),
        Column("ERROR", "error"),
    )
    rows = [_row(name, told.get(name)) for name in sorted(there)]
    print_rows(output, columns, rows)
    if output is None and any(row["state"] in ("unclaimed", "silent") for row in rows):
        note("Where no worker runs a pipeline, `ottla pipelines serve` starts one.")


def _row(name: str, one: Any) -> dict[str, Any]:
    if one is None:
        return {"name": name, "state": "unclaimed", "worker": None, "restarts": 0, "behind": None, "error": None}
    silent = one.state != "stopped" and time.time() - one.at > _SILENT_S
    behind = [query["behind"] for query in one.queries.values() if query.get("behind") is not None]
    return {
        "name": name,
        "state": "silent" if silent else one.state,
        "worker": one.worker,
        "restarts": one.restarts,
        "behind": sum(behind) if behind else None,
        "error": one.error,
    }
