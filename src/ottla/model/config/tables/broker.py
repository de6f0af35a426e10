"""All configs of a broker, in one mapping."""

from collections.abc import Mapping
from typing import Final

from ottla.model.config.definition import ConfigDef, Update, table
from ottla.model.config.tables import cluster, coordinators, log, network, ottla, remote, security

BROKER_CONFIGS: Final = table(
    network.ROWS + log.ROWS + cluster.ROWS + coordinators.ROWS + security.ROWS + remote.ROWS + ottla.ROWS
)

DYNAMIC_CONFIGS: Final[Mapping[str, ConfigDef]] = {
    **{name: row for name, row in BROKER_CONFIGS.items() if row.update is not Update.READ_ONLY},
    **table(cluster.DYNAMIC_ONLY),
}
"""Those that a running node takes."""
