"""Writes docs/reference/configs.md from the tables of ottla.model.config.

    python tools/generate_config_reference.py

Whether a config has an effect yet is found out from the code: some module outside the tables reads it. So a config that
comes to life is a change of the page, and tests/docs/test_generated.py asks for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from ottla.cli.config_names import in_words
from ottla.model.config import BROKER_CONFIGS, TOPIC_CONFIGS
from ottla.model.config.definition import ConfigDef, Required, Update
from ottla.model.config.tables import (
    client_metrics,
    cluster,
    coordinators,
    group,
    log,
    network,
    ottla,
    remote,
    security,
    topic,
)
from ottla.model.config.tables.to_come import part_to_come

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "reference" / "configs.md"
SOURCE = ROOT / "src" / "ottla"

# What reads configs to act on them. The other packages check, print or pass on.
ACTING = ("broker", "coordinator", "log", "metadata", "raft", "replica", "wire")
# Read by name, while a node's config is put together (model/config/broker.py), and used through what comes out.
RESOLVED = {
    "process.roles", "broker.id", "log.dir", "advertised.listeners", "listener.security.protocol.map",
    "controller.listener.names", "inter.broker.listener.name", "security.inter.broker.protocol",
    "ottla.metrics.listener", "ottla.log.format", "ottla.host", "config.providers",
}  # fmt: skip
# What works only in part, and how much of it.
PARTS = {
    "process.roles": "one process must have both",
    "controller.listener.names": "checked; such a listener is not opened yet",
    "inter.broker.listener.name": "checked; there are no other nodes to talk to yet",
    "security.inter.broker.protocol": "checked; there are no other nodes to talk to yet",
    "unclean.leader.election.enable": "with one replica there is no other to elect",
    "transaction.max.timeout.ms": "checked; there are no transactions yet",
}

GROUPS: Sequence[tuple[str, Sequence[ConfigDef]]] = (
    ("Who the node is", network.IDENTITY),
    ("Listeners", network.LISTENERS),
    ("Connections", network.CONNECTIONS),
    ("Requests", network.REQUESTS),
    ("Threads", network.THREADS),
    ("Where data lies", log.DIRECTORIES),
    ("New topics", log.NEW_TOPICS),
    ("Segments", log.SEGMENTS),
    ("Retention", log.RETAINING),
    ("Flushing", log.FLUSHING),
    ("Records", log.RECORDS),
    ("Compaction", log.CLEANING),
    ("The quorum", cluster.QUORUM),
    ("Metadata and registration", cluster.METADATA),
    ("Replication", cluster.REPLICATION),
    ("Metrics and quotas", cluster.METRICS_AND_QUOTAS),
    ("Plug-ins", cluster.PLUGINS),
    ("Groups", coordinators.GROUPS),
    ("Consumer groups (KIP-848)", coordinators.CONSUMER_GROUPS),
    ("Share groups (KIP-932)", coordinators.SHARE_GROUPS),
    ("Streams groups (KIP-1071)", coordinators.STREAMS_GROUPS),
    ("Committed offsets", coordinators.OFFSETS),
    ("Transactions and producer ids", coordinators.TRANSACTIONS),
    ("The share coordinator", coordinators.SHARE_COORDINATOR),
    ("Principals", security.PRINCIPALS),
    ("TLS", security.TLS),
    ("SASL", security.SASL),
    ("Kerberos", security.KERBEROS),
    ("OAuth", security.OAUTH),
    ("Delegation tokens", security.TOKENS),
    ("The remote tier: plug-ins", remote.PLUGINS),
    ("The remote tier: its work", remote.WORK),
    ("Only in Ottla: watching a node", ottla.WATCHING),
    ("Only in Ottla: where replicas go", ottla.PLACEMENT),
    ("Only in Ottla: the remote tier", ottla.TIER),
)

HEAD = """\
<!-- Written by tools/generate_config_reference.py from src/ottla/model/config/tables: change those, then run it. -->
# Configs

Names, types, defaults and limits are those of Apache Kafka 4.3. Give broker configs in a `server.properties`
(`ottla broker --config FILE`) or one by one (`ottla up --set NAME=VALUE`), topic configs when a topic is created
(`ottla topic create NAME --config NAME=VALUE`) or later. A name that no table has is warned about and has no effect.

The column *effect* says what a value changes in this version:

- **yes**: it works.
- **in part**: what of it works is said there.
- **not yet**: it is checked, stored and shown by DescribeConfigs; the part that it is about is still to come.
- **none**: it is about the JVM, its threads or its classes. It is taken, so that a file of Kafka's works unchanged,
  and never does anything here.

*Update* says whether a running node takes a new value: for each broker on its own, for the whole cluster (or one
broker), or only at a restart. [Change configs](../how-to/change-configs.md) says how.
"""


def render() -> str:
    read = names_read()
    parts = [HEAD, _topic_part(read), _group_part(read), _client_metrics_part(read), "\n## Broker configs\n"]
    for title, rows in GROUPS:
        parts.append(f"\n### {title}\n\n{_broker_table(rows, read)}")
    parts.append(f"\n### Set in a running cluster only\n\n{_broker_table(cluster.DYNAMIC_ONLY, read)}")
    missing = set(BROKER_CONFIGS) - {row.name for _, rows in GROUPS for row in rows}
    if missing:
        raise SystemExit(f"no group of GROUPS has {', '.join(sorted(missing))}")
    return "".join(parts)


def names_read() -> set[str]:
    """The configs that the code acts on, the broker's fallbacks for topic configs included."""
    attributes, texts = _names_in_code()
    found = set(RESOLVED)
    for name in (*TOPIC_CONFIGS, *BROKER_CONFIGS, *(row.name for row in cluster.DYNAMIC_ONLY)):
        if name.replace(".", "_") in attributes or name in texts:
            found.add(name)
    found.update(row.name for row in (*group.ROWS, *client_metrics.ROWS) if row.name in texts)
    for definition in (*TOPIC_CONFIGS.values(), *group.ROWS):
        if definition.name in found:
            found.update(synonym.name for synonym in definition.synonyms)
    for row in group.ROWS:
        if row.name in found:
            kind, _, rest = row.name.partition(".")
            found.update((f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"))  # what a group may set
    return found


def _names_in_code() -> tuple[set[str], set[str]]:
    attributes = set(_attributes(SOURCE / "model" / "config" / "topic.py"))  # `compact`, `max_segment_ms`, ...
    texts: set[str] = set()
    for path in (path for package in ACTING for path in (SOURCE / package).rglob("*.py")):
        attributes.update(_attributes(path))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
    return attributes, texts


def _attributes(path: Path) -> Iterator[str]:
    return (node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute))


def _topic_part(read: set[str]) -> str:
    rows = ["| name | type | default | allowed | meaning | without it | effect |", "|---|---|---|---|---|---|---|"]
    for row in topic.ROWS:
        fallback = ", ".join(f"`{synonym.name}`" for synonym in row.synonyms)
        rows.append(_row(row, fallback, _effect(row, read)))
    return (
        "\n## Topic configs\n\nA topic that does not set one takes the broker's config in the column *without it*, "
        "the first that is set.\n\n" + "\n".join(rows) + "\n"
    )


def _group_part(read: set[str]) -> str:
    rows = ["| name | type | default | allowed | meaning | without it | effect |", "|---|---|---|---|---|---|---|"]
    rows += (_row(row, ", ".join(f"`{each.name}`" for each in row.synonyms), _effect(row, read)) for row in group.ROWS)
    return (
        "\n## Group configs\n\nOf consumer, share and streams groups, by the group's name. What a group may set lies "
        "between the broker's `group.KIND.min.…` and `group.KIND.max.…`.\n\n" + "\n".join(rows) + "\n"
    )


def _client_metrics_part(read: set[str]) -> str:
    rows = ["| name | type | default | allowed | meaning | effect |", "|---|---|---|---|---|---|"]
    rows += (_row(row, _effect(row, read)) for row in client_metrics.ROWS)
    return "\n## Client metrics\n\nOf a subscription to clients' metrics (KIP-714).\n\n" + "\n".join(rows) + "\n"


def _broker_table(rows: Sequence[ConfigDef], read: set[str]) -> str:
    lines = ["| name | type | default | allowed | meaning | update | effect |", "|---|---|---|---|---|---|---|"]
    update = {Update.READ_ONLY: "restart", Update.PER_BROKER: "per broker", Update.CLUSTER_WIDE: "cluster"}
    lines += (_row(row, update[row.update], _effect(row, read)) for row in rows)
    return "\n".join(lines) + "\n"


def _row(row: ConfigDef, *last: str) -> str:
    meaning = f"{row.doc} (Internal.)" if row.internal else row.doc
    kind = row.type.name.lower()
    cells = (f"`{row.name}`", kind, _default(row), row.validator.description, meaning, *last)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _effect(row: ConfigDef, read: set[str]) -> str:
    if row.no_effect:
        return "none"
    if row.name not in read:
        return f"not yet ({part_to_come(row.name)})"
    part = PARTS.get(row.name) or next((PARTS[name] for name in _fallback_of(row) if name in PARTS), None)
    return f"in part ({part})" if part else "yes"


def _fallback_of(row: ConfigDef) -> Iterator[str]:
    """The topic configs for which a broker config stands in."""
    for definition in TOPIC_CONFIGS.values():
        if any(synonym.name == row.name for synonym in definition.synonyms):
            yield definition.name


def _default(row: ConfigDef) -> str:
    if isinstance(row.default, Required):
        return "must be set"
    text = row.default_text
    if text is None:
        return ""
    if text == "":
        return "empty"
    words = in_words(row.name, text)
    return f"`{text}` ({words})" if words else f"`{text}`"


def main() -> None:
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(render())


if __name__ == "__main__":
    main()
