"""The snapshots in the folder of `__cluster_metadata-0`: those that are whole, and one that is being downloaded."""

from __future__ import annotations

from ottla.env.files import read_file, sync_file, write_atomically
from ottla.env.ports import Buffer, Disk
from ottla.model.errors import OttlaError
from ottla.raft import snapshot_format
from ottla.raft.log_view import OffsetAndEpoch
from ottla.raft.snapshot_format import DELETED_SUFFIX, PART_SUFFIX, SUFFIX, Contents, file_name, parse_name

_ADVICE = "Remove the file and start again: the node gets the metadata from the log or from the other controllers"

_HEADER_BYTES = 4096


class SnapshotStore:
    """`ids` are those of whole snapshots, oldest first. Everything here blocks on the disk."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self.ids: list[OffsetAndEpoch] = []

    @property
    def latest(self) -> OffsetAndEpoch | None:
        return self.ids[-1] if self.ids else None

    def recover(self, log_start_offset: int) -> None:
        """Finds what is there; parts of downloads, and what is older than the log, go.

        OttlaError if the log does not begin at 0, and nothing stands for what was before: then nothing is changed.
        """
        ids: list[OffsetAndEpoch] = []
        useless: list[str] = []
        for name in self._disk.list_dir(self._folder):
            parsed = parse_name(name)
            if parsed is None:
                continue
            id, suffix = parsed
            if suffix != SUFFIX or id.offset < log_start_offset:
                useless.append(f"{self._folder}/{name}")
            else:
                ids.append(id)
        if log_start_offset > 0 and not ids:
            raise OttlaError(
                f"the metadata log in {self._folder} begins at offset {log_start_offset}, and there is no snapshot of "
                "what was before. Restore its .checkpoint files from a backup; or, if other controllers have the "
                "metadata, set this folder aside: the node gets it from them."
            )
        for path in useless:
            self._disk.remove(path)
        self.ids = sorted(ids)

    def path(self, id: OffsetAndEpoch, suffix: str = SUFFIX) -> str:
        return f"{self._folder}/{file_name(id, suffix)}"

    def size(self, id: OffsetAndEpoch) -> int | None:
        return self._disk.file_size(self.path(id)) if id in self.ids else None

    def read(self, id: OffsetAndEpoch) -> Contents:
        path = self.path(id)
        return snapshot_format.decode(read_file(self._disk, path), path, _ADVICE)

    def timestamp(self, id: OffsetAndEpoch) -> int:
        """Of the last batch that it contains."""
        return snapshot_format.timestamp_in(self.read_chunk(id, 0, _HEADER_BYTES))

    def read_chunk(self, id: OffsetAndEpoch, position: int, size: int) -> bytes:
        file = self._disk.open(self.path(id))
        try:
            return file.pread(size, position)
        finally:
            file.close()

    def write(self, id: OffsetAndEpoch, data: bytes) -> None:
        """Durable when it returns."""
        write_atomically(self._disk, self.path(id), data)
        self._add(id)

    def write_chunk(self, id: OffsetAndEpoch, position: int, data: Buffer) -> None:
        """Of a download, which does not count before `finish`, or of one that is made here, not before `made`."""
        file = self._disk.open(self.path(id, PART_SUFFIX), create=True)
        try:
            if position == 0:
                file.truncate(0)
            file.write((data,), position)
        finally:
            file.close()

    def made(self, id: OffsetAndEpoch) -> None:
        """All of it is written: durable when it returns, and one of `ids`."""
        self._complete(id)

    def finish(self, id: OffsetAndEpoch) -> Contents:
        """The download is whole: checked, durable, and one of `ids`. OttlaError if it is damaged, and it is gone."""
        part = self.path(id, PART_SUFFIX)
        try:
            contents = snapshot_format.decode(read_file(self._disk, part), part, "It is fetched again")
        except Exception:
            self._disk.remove(part)
            raise
        self._complete(id)
        return contents

    def _complete(self, id: OffsetAndEpoch) -> None:
        part = self.path(id, PART_SUFFIX)
        sync_file(self._disk, part)
        self._disk.rename(part, self.path(id))
        self._disk.sync_dir(self._folder)
        self._add(id)

    def drop_part(self, id: OffsetAndEpoch) -> None:
        part = self.path(id, PART_SUFFIX)
        if self._disk.exists(part):
            self._disk.remove(part)

    def forget_before(self, offset: int) -> list[str]:
        """What nobody needs once a newer one is durable: renamed as Kafka does. Gives the paths to remove."""
        paths = []
        for id in [id for id in self.ids if id.offset < offset]:
            self.ids.remove(id)
            self._disk.rename(self.path(id), self.path(id, DELETED_SUFFIX))
            paths.append(self.path(id, DELETED_SUFFIX))
        return paths

    def _add(self, id: OffsetAndEpoch) -> None:
        if id not in self.ids:
            self.ids = sorted((*self.ids, id))
