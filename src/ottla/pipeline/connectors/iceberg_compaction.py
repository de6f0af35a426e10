"""Small files of an Iceberg table, put together: a commit of its own that changes no row.

pyiceberg has no action for it yet, but what one is made of: an overwrite that takes files away and adds others. Rows go
through the driver's memory, so that only some are taken at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

SMALL_BYTES: Final = 32 << 20
FEWEST: Final = 8
"""Of a partition; fewer are left alone, since readers hardly notice them."""
_AT_A_TIME_BYTES: Final = 128 << 20


def put_together(table: Any) -> int:
    """How many files were replaced. pyiceberg's own error if somebody else commits meanwhile, and nothing is done."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files

    groups = _groups(table.scan().plan_files())
    if not groups:
        return 0
    metadata = table.metadata
    scan = ArrowScan(metadata, table.io, metadata.schema(), AlwaysTrue())
    together = [file for group in groups for file in _dataframe_to_data_files(metadata, scan.to_table(group), table.io)]
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as snapshot:
        for file in together:
            snapshot.append_data_file(file)
        for group in groups:
            for task in group:
                snapshot.delete_data_file(task.file)
    return sum(map(len, groups))


def _groups(tasks: Iterable[Any]) -> list[list[Any]]:
    """Small files of the same partition. Those with deletes beside them belong to whoever writes such deletes."""
    by_partition: dict[str, list[Any]] = defaultdict(list)
    for task in tasks:
        if task.file.file_size_in_bytes < SMALL_BYTES and not task.delete_files:
            by_partition[f"{task.file.spec_id} {task.file.partition!r}"].append(task)
    found, left = [], _AT_A_TIME_BYTES
    for own in by_partition.values():
        group = []
        for task in own:
            if task.file.file_size_in_bytes <= left:
                group.append(task)
                left -= task.file.file_size_in_bytes
        if len(group) >= FEWEST:
            found.append(group)
    return found
