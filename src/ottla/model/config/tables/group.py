"""The configs of a group (KIP-848, KIP-932, KIP-1071), each with the broker config that it falls back to."""

from typing import Final

from ottla.model.config.definition import ConfigDef, ConfigType, Synonym, Update, table
from ottla.model.config.validators import OFFSET_RESET, at_least, one_of

BOOLEAN, INT, STRING = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.STRING
UPDATABLE: Final = Update.CLUSTER_WIDE


def _from(name: str) -> tuple[Synonym, ...]:
    return (Synonym(f"group.{name}"),)


def _sessions(kind: str) -> tuple[ConfigDef, ...]:
    """What consumer, share and streams groups have in common."""
    session, heartbeat, assignment = (
        f"{kind}.session.timeout.ms",
        f"{kind}.heartbeat.interval.ms",
        f"{kind}.assignment.interval.ms",
    )
    return (
        ConfigDef(session, INT, 45_000, "A member silent for this long is removed from the group.", at_least(1),
                  UPDATABLE, synonyms=_from(session)),
        ConfigDef(heartbeat, INT, 5000, "How often members of the group are told to report.", at_least(1), UPDATABLE,
                  synonyms=_from(heartbeat)),
        ConfigDef(assignment, INT, 1000, "The shortest time between two assignments of the group.", at_least(0),
                  UPDATABLE, synonyms=_from(assignment)),
    )  # fmt: skip


ROWS: Final = (
    *_sessions("consumer"),
    *_sessions("share"),
    ConfigDef("share.record.lock.duration.ms", INT, 30_000, "How long a delivered record waits for its answer.",
              at_least(1000), UPDATABLE, synonyms=_from("share.record.lock.duration.ms")),
    ConfigDef("share.delivery.count.limit", INT, 5, "How often a record is delivered before it is given up.",
              at_least(2), UPDATABLE, synonyms=_from("share.delivery.count.limit")),
    ConfigDef("share.partition.max.record.locks", INT, 2000, "Records of a partition under way at a time.",
              at_least(100), UPDATABLE, synonyms=_from("share.partition.max.record.locks")),
    ConfigDef("share.auto.offset.reset", STRING, "latest",
              "Where a share group begins to read: earliest, latest, or by_duration: and how long ago (PT1H).",
              OFFSET_RESET, UPDATABLE),
    ConfigDef("share.isolation.level", STRING, "read_uncommitted",
              "Whether a share group gets records of transactions that are not committed.",
              one_of("read_committed", "read_uncommitted"), UPDATABLE),
    ConfigDef("share.renew.acknowledge.enable", BOOLEAN, True,
              "Whether members may ask for more time with a record.", update=UPDATABLE),
    *_sessions("streams"),
    ConfigDef("streams.num.standby.replicas", INT, 0, "Standby copies of each task's state.", at_least(0), UPDATABLE,
              synonyms=_from("streams.num.standby.replicas")),
    ConfigDef("streams.initial.rebalance.delay.ms", INT, 3000,
              "How long the first assignment of a streams group waits for more members.", at_least(0), UPDATABLE,
              synonyms=_from("streams.initial.rebalance.delay.ms")),
)  # fmt: skip

GROUP_CONFIGS: Final = table(ROWS)
