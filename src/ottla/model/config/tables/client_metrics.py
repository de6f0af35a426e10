"""The configs of a subscription to clients' metrics (KIP-714)."""

from typing import Final

from ottla.model.config.definition import ConfigDef, ConfigType, Update, table
from ottla.model.config.tables.topic import MINUTE
from ottla.model.config.validators import ENTRIES

UPDATABLE: Final = Update.CLUSTER_WIDE

ROWS: Final = (
    ConfigDef("interval.ms", ConfigType.INT, 5 * MINUTE, "How often clients push the metrics asked for.",
              update=UPDATABLE),
    ConfigDef("match", ConfigType.LIST, (),
              "Which clients are asked: NAME=PATTERN, all of which must hold; none means every client.", ENTRIES,
              UPDATABLE),
    ConfigDef("metrics", ConfigType.LIST, (),
              "The metrics asked for, by the beginnings of their names; * for all of them.", ENTRIES, UPDATABLE),
)  # fmt: skip

CLIENT_METRICS_CONFIGS: Final = table(ROWS)
