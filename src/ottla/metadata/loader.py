"""Replays the metadata log when a node starts."""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.metadata.batches import batch_records
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.record_codec import RecordError
from ottla.metadata.replay_error import ReplayError
from ottla.metadata.transactions import Transactions
from ottla.model.errors import OttlaError
from ottla.record.batch import computed_crc, parse_header
from ottla.record.records import CorruptBatch


class Loaded(NamedTuple):
    image: MetadataImage
    transactions: Transactions
    """Open if the last leader died within a transaction; the next one aborts it."""


def load(batches: Iterable[memoryview], base: MetadataImage = EMPTY_IMAGE) -> Loaded:
    """All batches of the log on top of an image. OttlaError where one cannot be replayed: metadata is never guessed."""
    delta = MetadataDelta(base)
    transactions = Transactions()
    offset, epoch = base.offset, base.epoch
    for batch in batches:
        header = parse_header(batch)
        try:
            if header.crc != computed_crc(batch):
                raise CorruptBatch("its checksum is wrong")
            if not header.is_control:
                delta.replay_all(transactions.effective(batch_records(batch)))
        except (CorruptBatch, RecordError, ReplayError) as error:
            raise OttlaError(
                f"the metadata log cannot be replayed: batch at offset {header.base_offset}: {error}. "
                "Restore __cluster_metadata-0 from a backup or another controller."
            ) from error
        offset, epoch = header.last_offset, header.leader_epoch
    return Loaded(delta.apply(offset, epoch), transactions)
