"""Which of the folders that lie in the log dirs at a start are partitions of this node."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final
from uuid import UUID

from ottla.metadata.image import DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, MetadataImage
from ottla.model.config import BrokerConfig, LogConfig, log_config
from ottla.model.names import TopicPartition

_ANYWHERE: Final = (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING, DIRECTORY_LOST)


class KnownPartitions:
    """Asked for one folder after the other; those that it does not know are set aside."""

    def __init__(self, config: BrokerConfig, image: MetadataImage, folders: Mapping[UUID, Set[str]]) -> None:
        """`folders` are the names in each log dir that is online."""
        self._config = config
        self._image = image
        self._folders = folders
        self._configs: dict[str, LogConfig] = {}

    def __call__(
        self, partition: TopicPartition, topic_id: UUID | None, directory: UUID
    ) -> tuple[UUID, LogConfig] | None:
        topic = self._image.topic(partition.topic)
        if topic is None or topic_id not in (None, topic.id) or partition.partition not in topic.partitions:
            return None
        image = topic.partitions[partition.partition]
        if self._config.node_id not in image.replicas:
            return None
        assigned = image.directory_of(self._config.node_id)
        if assigned != directory and not self._is_here(partition, topic_id, directory, assigned):
            return None
        return topic.id, self._config_of(topic.name)

    def _is_here(self, partition: TopicPartition, topic_id: UUID | None, directory: UUID, assigned: UUID) -> bool:
        """A folder in another log dir than the metadata says: a move was cut off, or it is of a deleted namesake."""
        name = str(partition)
        others = [other for other, names in self._folders.items() if other != directory and name in names]
        if topic_id is None and (others or assigned not in _ANYWHERE):
            return False
        return assigned not in others

    def _config_of(self, topic: str) -> LogConfig:
        config = self._configs.get(topic)
        if config is None:
            config = self._configs[topic] = log_config(self._config, self._image.topic_config(topic), topic)
        return config
