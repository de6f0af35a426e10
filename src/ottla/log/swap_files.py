"""What a cleaner left half done, ours or Apache Kafka's, when it was killed.

It writes a cleaned segment as `.cleaned`, renames it to `.swap`, marks the segments that it replaces `.deleted`, and
renames `.swap` to its final name. A whole `.swap` is therefore the truth, and what it covers is not. Where there are
still `.cleaned` files, the swaps from the first of them on belong to a step that was not finished, and go with them.
"""

from __future__ import annotations

from typing import Final

from ottla.env.ports import Disk
from ottla.log.paths import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from ottla.log.scan import good_batches

_FILES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


def finish_swaps(disk: Disk, folder: str, names: list[str]) -> bool:
    """True if there was anything to do."""
    unfinished = min((int(name.split(".")[0]) for name in names if name.endswith(CLEANED_SUFFIX)), default=None)
    swaps = []
    for name in names:
        if name.endswith(SWAP_SUFFIX):
            if unfinished is not None and int(name.split(".")[0]) >= unfinished:
                disk.remove(f"{folder}/{name}")
            else:
                swaps.append(name)
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _remove_covered(disk, folder, names, name)
    for name in swaps:
        disk.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(SWAP_SUFFIX)}")
    if swaps:
        disk.sync_dir(folder)
    return bool(swaps)


def _remove_covered(disk: Disk, folder: str, names: list[str], swap: str) -> None:
    first = int(swap.split(".")[0])
    file = disk.open(f"{folder}/{swap}")
    end = first
    for batch in good_batches(file, 0, file.size(), first):
        end = batch.header.next_offset
    file.close()
    for name in names:
        if name.endswith(LOG_SUFFIX) and first <= int(name.removesuffix(LOG_SUFFIX)) < end:
            for suffix in _FILES:
                disk.remove(f"{folder}/{offset_name(int(name.removesuffix(LOG_SUFFIX)))}{suffix}")
