"""Replays batches of the metadata log."""

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


def replay(batches: Iterable[memoryview], delta: MetadataDelta, transactions: Transactions) -> MetadataImage:
    """The image after these batches. OttlaError where one cannot be replayed: metadata is never guessed.

    `transactions` is open afterwards if they end within one.
    """
    offset, epoch = delta.base.offset, delta.base.epoch
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
    return delta.apply(offset, epoch)


class Loaded(NamedTuple):
    image: MetadataImage
    transactions: Transactions


def load(batches: Iterable[memoryview]) -> Loaded:
    """All batches of a log, from its first."""
    transactions = Transactions()
    return Loaded(replay(batches, MetadataDelta(EMPTY_IMAGE), transactions), transactions)
