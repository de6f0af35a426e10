"""All configs of a broker, in one mapping.

Not here yet, and so warned about as unknown: TLS, SASL, principals and delegation tokens (`ssl.*`, `sasl.*`, ...) and
the remote tier (`remote.*`).
"""

from typing import Final

from ottla.model.config.definition import table
from ottla.model.config.tables import cluster, coordinators, log, network

BROKER_CONFIGS: Final = table(network.ROWS + log.ROWS + cluster.ROWS + coordinators.ROWS)
