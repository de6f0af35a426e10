"""On which machine a broker runs, as far as placement is concerned: see docs/adr/0011-the-machine-of-a-broker.md.

By default brokers that advertise the same host share a machine. A broker that knows better says so (`ottla.host`), and
its label goes with its registration as a feature that nobody else knows: `ottla.host:LABEL`, with versions 0 to 1.
"""

from typing import Final

from ottla.metadata.image import BrokerImage, VersionRange

_PREFIX: Final = "ottla.host:"
_RANGE: Final = VersionRange(0, 1)


def host_feature(label: str | None) -> tuple[tuple[str, VersionRange], ...]:
    """What a broker adds to the features of its registration."""
    return () if label is None else ((_PREFIX + label, _RANGE),)


def host_of(broker: BrokerImage) -> str:
    for name in broker.features:
        if name.startswith(_PREFIX):
            return name[len(_PREFIX) :]
    return broker.endpoints[0].host if broker.endpoints else str(broker.id)
