"""How many partitions and replicas can be asked for: what Kafka's protocol has room for. Brokers allow less."""

from __future__ import annotations

from typing import Final

import click

MOST_PARTITIONS: Final = (1 << 31) - 1
_MOST_REPLICAS: Final = (1 << 15) - 1

# -1 is the broker's own number, as with Kafka's tools
PARTITIONS: Final = click.IntRange(-1, MOST_PARTITIONS)
REPLICAS: Final = click.IntRange(-1, _MOST_REPLICAS)
