"""Disks that are slow, full, failing, rotting, or replaced with empty ones."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Final

from ottla.log.paths import LOG_SUFFIX, RECOVERY_POINT_CHECKPOINT
from ottla.record.batch import HEADER_SIZE, parse_header
from ottla.sim.cluster.cleanup import KEEPS_ALL
from ottla.sim.cluster.member import LOG_DIR, MORE, Member
from ottla.sim.cluster.oracle import Oracle, PartitionStory
from ottla.sim.faults import Operation
from ottla.sim.log_files import partition_folders

_USUAL_S = 0.02
_FILES: Final = ("*.log", "*.log", "*.index", "*.snapshot*", "*-checkpoint*", f"{LOG_DIR}/*", f"{MORE}/*", "*")
_OPERATIONS: Final[tuple[tuple[Operation, ...], ...]] = (
    ("write",), ("sync",), ("write", "sync"), ("create",), ("rename",), ("sync_dir",), ("truncate", "write"), ("read",),
)  # fmt: skip


class DiskFaults:
    def __init__(self, members: Sequence[Member], oracle: Oracle) -> None:
        self._members = members
        self._oracle = oracle
        self.steps = {
            "slow disk": self._slow_disk,
            "full disk": self._full_disk,
            "failing disk": self._failing_disk,
            "rot": self._rot,
        }
        # A voter that forgets how it voted breaks what any quorum stands on; a controller is removed and added instead.
        self._replaceable = [member for member in members if not member.is_controller]
        if self._replaceable:
            self.steps["empty disk"] = self._empty_disk

    async def heal(self) -> None:
        for member in self._members:
            member.slow_down(_USUAL_S)
            if member.disk.failures:
                member.kill()  # folders that failed stay away until a start finds them whole
            member.disk.heal()
        await self._mend_rot()

    async def _slow_disk(self, random: Random) -> None:
        """Syncs take long: much has been appended, or acknowledged elsewhere, of which the disk knows nothing."""
        member = random.choice(self._members)
        member.slow_down(random.choice((0.1, 0.5, 2.0)))
        await asyncio.sleep(random.uniform(1.0, 6.0))
        member.slow_down(_USUAL_S)

    async def _full_disk(self, random: Random) -> None:
        await self._failing(random, "*", errno.ENOSPC, ("write", "create"))

    async def _failing_disk(self, random: Random) -> None:
        await self._failing(random, random.choice(_FILES), errno.EIO, random.choice(_OPERATIONS))

    async def _failing(self, random: Random, files: str, error: int, operations: tuple[Operation, ...]) -> None:
        """Until somebody has mended it and started the node again. One that fails to sync must not be trusted."""
        member = random.choice(self._members)
        disk = member.disk
        if "sync" in operations:
            member.host.power_loss_planned = True
        fault = disk.fail(files, error, operations, random.choice((1, 3, None)))
        await asyncio.sleep(random.choice((0.5, 3.0, 8.0)) * random.uniform(0.3, 1.0))
        fault.heal()
        if disk is member.disk and disk.failures:
            await asyncio.sleep(random.uniform(0.0, 1.0))
            member.kill()

    async def _empty_disk(self, random: Random) -> None:
        member = random.choice(self._replaceable)
        if not self._oracle.may_replace_disk(member.id):
            return
        member.restart_after_s = random.choice(((0.02, 0.3), (3.0, 12.0)))
        member.replace_disk()

    # -- rot

    async def _rot(self, random: Random) -> None:
        """A bit flips in a record that was synced long ago, where others have the record too."""
        stories = [
            story
            for story in self._oracle.partitions.values()
            if len(story.isr) > 1 and not story.rotten and story.cleanup == KEEPS_ALL
        ]
        if not stories:
            return
        story = random.choice(stories)
        others = [replica for replica in story.isr if replica != story.leader]
        begins_anew = random.choice(others) if len(others) > 1 and random.random() < 0.5 else None
        rots = story.leader if begins_anew is not None else random.choice(story.isr)
        (member,) = (each for each in self._members if each.id == rots)
        places = _cold_batches(member, story)
        if places and member.id not in story.ends:
            path, start, end, offset = random.choice(places)
            member.disk.rot(path, random.randrange(start, end), random.randrange(8))
            self._oracle.rots(member.id, story.id, offset)
            if begins_anew is not None and begins_anew not in story.ends:
                self._take_away(begins_anew, story)
                self._oracle.lost_power(begins_anew, {story.id: 0})
                self._oracle.counts["replicas that begin anew from a rotten one"] += 1

    async def _mend_rot(self) -> None:
        for story in list(self._oracle.partitions.values()):
            for node in list(story.rotten):
                await self._others_are_there(story, node)
                self._take_away(node, story)
                self._oracle.mended(node, story.id)

    def _take_away(self, node: int, story: PartitionStory) -> None:
        """As a person would: the node is stopped, and the folder of the partition taken away."""
        (member,) = (each for each in self._members if each.id == node)
        member.kill()
        files = member.disk.snapshot()
        for log_dir in member.config.log_dirs:
            folder = partition_folders(files, log_dir).get(story.id)
            if folder is not None:
                member.disk.remove_tree(folder)
                member.disk.sync_dir(log_dir)  # else a loss of power brings it back
        member.left.pop(story.id, None)

    async def _others_are_there(self, story: PartitionStory, node: int) -> None:
        for _ in range(100):
            if any(other != node for other in story.isr):
                return
            await asyncio.sleep(0.1)


def _cold_batches(member: Member, story: PartitionStory) -> list[tuple[str, int, int, int]]:
    """File, first and last byte of the records, and offset of batches that no recovery would look at again."""
    files = member.disk.snapshot()
    found: list[tuple[str, int, int, int]] = []
    for log_dir in member.config.log_dirs:
        folder = partition_folders(files, log_dir).get(story.id)
        if folder is None:
            continue
        recovered = _recovery_point(files.get(f"{log_dir}/{RECOVERY_POINT_CHECKPOINT}"), folder.rpartition("/")[2])
        segments = sorted(path for path in files if path.startswith(f"{folder}/") and path.endswith(LOG_SUFFIX))
        for path, following in pairwise(segments):
            if int(following.rpartition("/")[2][: -len(LOG_SUFFIX)]) <= recovered:
                content, position = files[path] or b"", 0
                while position + HEADER_SIZE < len(content):
                    header = parse_header(content, position)
                    found.append((path, position + HEADER_SIZE, position + header.size, header.base_offset))
                    position += header.size
    return found


def _recovery_point(checkpoint: bytes | None, name: str) -> int:
    topic, _, partition = name.rpartition("-")
    for line in (checkpoint or b"").decode().splitlines():
        if line.startswith(f"{topic} {partition} "):
            return int(line.rpartition(" ")[2])
    return 0
