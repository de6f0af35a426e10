"""What the controller is told once: defaults of the cluster, its periods, and how configs are checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from ottla.env.ports import Randomness
from ottla.metadata.controller.features import SUPPORTED
from ottla.metadata.controller.result import ApiError
from ottla.metadata.image import ConfigResource, VersionRange


@dataclass(frozen=True, slots=True)
class ConfigRules:
    check: Callable[[ConfigResource, Mapping[str, str]], ApiError | None]
    """What is wrong with all the configs of a resource; None if nothing is."""
    is_list: Callable[[ConfigResource, str], bool]
    """Whether values of this name are lists, to which one can be appended."""
    default: Callable[[ConfigResource, str], str | None]
    """What a list begins with where none is set: the default of the table, whatever the brokers say."""
    inherited: Callable[[str], str | None]
    """What a topic config is where the topic does not say: the broker's."""


class QuorumPort(Protocol):
    """What the quorum itself keeps, and the controller is asked to change."""

    @property
    def kraft_version(self) -> int: ...

    def upgrade_kraft_version(self, version: int, *, validate_only: bool) -> bool:
        """False if not all voters support it. It is appended when this returns, and not yet committed."""


class _StaticQuorum:
    kraft_version = 0

    def upgrade_kraft_version(self, version: int, *, validate_only: bool) -> bool:
        return False


STATIC_QUORUM: Final[QuorumPort] = _StaticQuorum()


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    cluster_id: str
    random: Randomness
    configs: ConfigRules
    default_num_partitions: int = 1
    default_replication_factor: int = 1
    max_batch_bytes: int = 8 * 1024 * 1024
    """Of metadata records; Kafka's followers refuse more."""
    quorum: QuorumPort = STATIC_QUORUM
    node_id: int = -1  # of the controller itself
    supported: Mapping[str, VersionRange] = field(default_factory=lambda: SUPPORTED)
    """The levels of features that this controller could run with."""
    static_voters: tuple[int, ...] = ()
    """Whom the config names: all of them must have registered before features change."""
    session_timeout_ms: int = 9000
    balance_every_ms: int | None = 300_000  # None: leaderships stay where they are
    unclean_every_ms: int = 300_000
