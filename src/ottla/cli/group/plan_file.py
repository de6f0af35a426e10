"""Files of offsets, as kafka-consumer-groups.sh writes and reads them: CSV without a header.

TOPIC,PARTITION,OFFSET for one group; GROUP,TOPIC,PARTITION,OFFSET for several.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition

Plan = Mapping[str, Mapping[TopicPartition, int]]


def read(path: str, groups: Sequence[str]) -> Plan:
    """By group. A file without groups is for the only one that is named."""
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise OttlaError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OttlaError(f"{path} is not text: TOPIC,PARTITION,OFFSET lines are needed") from None
    plan: dict[str, dict[TopicPartition, int]] = {}
    for number, cells in enumerate(csv.reader(io.StringIO(text)), start=1):
        if not cells:
            continue
        if len(cells) == 3 and len(groups) != 1:
            raise OttlaError(f"{path} names no groups, so just one must be named on the command line")
        row = [groups[0], *cells] if len(cells) == 3 else cells
        if len(row) != 4 or not row[2].strip().isdecimal() or not row[3].strip().lstrip("-").isdecimal():
            raise OttlaError(
                f"{path}, line {number}: neither TOPIC,PARTITION,OFFSET nor GROUP,TOPIC,PARTITION,OFFSET: "
                f"{','.join(cells)!r}"
            )
        plan.setdefault(row[0], {})[TopicPartition(row[1], int(row[2]))] = int(row[3])
    if not plan:
        raise OttlaError(f"{path} has no offsets")
    return plan


def written(rows: Sequence[Mapping[str, Any]], *, with_groups: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        cells = [row["topic"], row["partition"], row["new_offset"]]
        writer.writerow([row["group"], *cells] if with_groups else cells)
    return out.getvalue()
