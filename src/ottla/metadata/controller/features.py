"""Which feature levels a cluster starts with, and what a new leader writes before anything else."""

from collections.abc import Sequence
from typing import Final

from ottla.metadata.image import METADATA_VERSION, MetadataImage, VersionRange
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.feature_level_record import FeatureLevelRecord

KRAFT_VERSION: Final = "kraft.version"
GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
LATEST_METADATA_VERSION: Final = 30  # 4.3-IV0
_CONSUMER_GROUPS_FROM: Final = 22  # 4.0-IV0: clusters of before start without
_TRANSACTIONS_FROM: Final = 24  # 4.0-IV2: the same

SUPPORTED: Final[dict[str, VersionRange]] = {
    # Clusters before 3.3-IV3 write records that nobody reads any more; Kafka 4 starts there too.
    METADATA_VERSION: VersionRange(7, LATEST_METADATA_VERSION),
    # 1 is dynamic voters (KIP-853). What is missing (share, streams, eligible.leader.replicas) is not
    # implemented: a level that is finalised makes clients and brokers count on it.
    KRAFT_VERSION: VersionRange(0, 0),
    GROUP_VERSION: VersionRange(0, 1),  # 1 is the consumer protocol (KIP-848)
    TRANSACTION_VERSION: VersionRange(0, 2),  # 1 has flexible records, 2 an epoch for each transaction (KIP-890)
}


def bootstrap_records(metadata_version: int = LATEST_METADATA_VERSION) -> tuple[MetadataRecord, ...]:
    """What `storage format` puts into bootstrap.checkpoint: the first records of a new cluster."""
    records = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=metadata_version)]
    if metadata_version >= _CONSUMER_GROUPS_FROM:
        records.append(FeatureLevelRecord(name=GROUP_VERSION, feature_level=1))
    if metadata_version >= _TRANSACTIONS_FROM:
        records.append(FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=2))
    return tuple(records)


def activation_records(
    image: MetadataImage, open_transaction: bool, bootstrap: Sequence[MetadataRecord]
) -> tuple[MetadataRecord, ...]:
    """KIP-868: an unfinished transaction is aborted; an empty log gets the bootstrap records, in a transaction."""
    records: list[MetadataRecord] = []
    if open_transaction:
        from ottla.metadata.records.abort_transaction_record import AbortTransactionRecord

        records.append(AbortTransactionRecord(reason="Controller failover"))
    if image.is_empty:
        from ottla.metadata.records.begin_transaction_record import BeginTransactionRecord
        from ottla.metadata.records.end_transaction_record import EndTransactionRecord

        records += (BeginTransactionRecord(name="Bootstrap records"), *bootstrap, EndTransactionRecord())
    return tuple(records)
