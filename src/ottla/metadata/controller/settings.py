"""What the controller is told once: defaults of the cluster and how configs are checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla.env.ports import Randomness
from ottla.metadata.image import ConfigResource


@dataclass(frozen=True, slots=True)
class ConfigRules:
    check: Callable[[ConfigResource, Mapping[str, str]], str | None]
    """What is wrong with all the configs of a resource, in Kafka's words; None if nothing is."""
    is_list: Callable[[ConfigResource, str], bool]
    """Whether values of this name are lists, to which one can be appended."""
    default: Callable[[ConfigResource, str], str | None]
    """The value that holds where none is set."""


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    cluster_id: str
    random: Randomness
    configs: ConfigRules
    default_num_partitions: int = 1
    default_replication_factor: int = 1
