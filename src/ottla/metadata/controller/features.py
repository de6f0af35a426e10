"""Which feature levels a cluster starts with, and what a new leader writes before anything else."""

from collections.abc import Sequence
from typing import Final

from ottla.metadata.image import METADATA_VERSION, MetadataImage, ResourceType, VersionRange
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.config_record import ConfigRecord
from ottla.metadata.records.feature_level_record import FeatureLevelRecord

KRAFT_VERSION: Final = "kraft.version"
GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
MIN_ISR: Final = "min.insync.replicas"
LATEST_METADATA_VERSION: Final = 30  # 4.3-IV0
REGISTERS_CONTROLLERS: Final = 15  # 3.7-IV0
_HAS_TRANSACTIONS: Final = 14  # 3.6-IV2
# The metadata.version from which a new cluster starts with a feature, and its level: those of before start without.
_STARTS_WITH: Final = {GROUP_VERSION: (22, 1), TRANSACTION_VERSION: (24, 2), ELR_VERSION: (26, 1)}  # 4.0-IV0, -IV2, 4.1

SUPPORTED: Final[dict[str, VersionRange]] = {
    # Clusters before 3.3-IV3 write records that nobody reads any more; Kafka 4 starts there too.
    METADATA_VERSION: VersionRange(7, LATEST_METADATA_VERSION),
    # 1 is voters in the log (KIP-853). What is missing (share, streams) is not implemented: a level that is finalised
    # makes clients and brokers count on it.
    KRAFT_VERSION: VersionRange(0, 1),
    GROUP_VERSION: VersionRange(0, 1),  # 1 is the consumer protocol (KIP-848)
    TRANSACTION_VERSION: VersionRange(0, 2),  # 1 has flexible records, 2 an epoch for each transaction (KIP-890)
    ELR_VERSION: VersionRange(0, 1),  # 1 is eligible leader replicas (KIP-966)
}


def bootstrap_records(metadata_version: int = LATEST_METADATA_VERSION) -> tuple[MetadataRecord, ...]:
    """What `storage format` puts into bootstrap.checkpoint: the first records of a new cluster."""
    records = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=metadata_version)]
    for name, (since, level) in sorted(_STARTS_WITH.items()):
        if metadata_version >= since:
            records.append(FeatureLevelRecord(name=name, feature_level=level))
    return tuple(records)


def activation_records(
    image: MetadataImage, open_transaction: bool, bootstrap: Sequence[MetadataRecord], min_isr: str
) -> tuple[MetadataRecord, ...]:
    """KIP-868: an unfinished transaction is aborted; an empty log gets the bootstrap records, in a transaction.

    With eligible leader replicas all controllers must agree on min.insync.replicas (KIP-966): what the first one has in
    its file becomes the cluster's.
    """
    records: list[MetadataRecord] = []
    if open_transaction:
        from ottla.metadata.records.abort_transaction_record import AbortTransactionRecord

        records.append(AbortTransactionRecord(reason="Controller failover"))
    if image.is_empty:
        from ottla.metadata.records.begin_transaction_record import BeginTransactionRecord
        from ottla.metadata.records.end_transaction_record import EndTransactionRecord

        levels = {record.name: record.feature_level for record in bootstrap if isinstance(record, FeatureLevelRecord)}
        first = list(bootstrap)
        if levels.get(ELR_VERSION, 0) > 0:
            first.append(ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=MIN_ISR, value=min_isr))
        if levels.get(METADATA_VERSION, 0) >= _HAS_TRANSACTIONS:
            first = [BeginTransactionRecord(name="Bootstrap records"), *first, EndTransactionRecord()]
        records += first
    return tuple(records)
