"""Configs that only Ottla has. All begin with `ottla.`, and Kafka's tools do not see those that are not set."""

from typing import Final

from ottla.model.config.definition import ConfigDef, ConfigType, Importance
from ottla.model.config.validators import HOST_PORT, at_least, one_of

STRING = ConfigType.STRING
LOW = Importance.LOW

WATCHING: Final = (
    ConfigDef(
        "ottla.metrics.listener", STRING, "",
        "Where metrics and health are served over HTTP: host:port, such as 127.0.0.1:9404. Empty: nowhere.",
        HOST_PORT, importance=LOW, internal=True,
    ),
    ConfigDef(
        "ottla.log.format", STRING, "human", "How the log is written: human, or json with one object a line.",
        one_of("human", "json"), importance=LOW, internal=True,
    ),
)  # fmt: skip

PLACEMENT: Final = (
    ConfigDef(
        "ottla.host", STRING, None,
        "The machine that this broker runs on: replicas of a partition go to different ones while there are some. By "
        "default the host of its first advertised listener.",
        importance=LOW, internal=True,
    ),
)  # fmt: skip

TIER: Final = (
    ConfigDef(
        "ottla.remote.cache.bytes", ConfigType.LONG, 64 * 1024 * 1024,
        "How much of what was read from the remote tier, or read ahead, is kept in memory.",
        at_least(1024 * 1024), importance=LOW, internal=True,
    ),
    ConfigDef(
        "ottla.remote.copy.backlog.bytes", ConfigType.LONG, 2 * 1024 * 1024 * 1024,
        "How much may wait to be copied to the remote tier while producers are busy: so far copies give way to them. 0 "
        "lets them never do.",
        at_least(0), importance=LOW, internal=True,
    ),
)  # fmt: skip

ROWS: Final = WATCHING + PLACEMENT + TIER
