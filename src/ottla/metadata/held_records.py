"""Records of features to come: the image keeps the last one of each key, so that none is lost in the meantime."""

from collections.abc import Callable, Hashable
from typing import Any, Final

from ottla.metadata.records.base import MetadataRecord

DELEGATION_TOKEN: Final = 10
USER_SCRAM_CREDENTIAL: Final = 11
CLIENT_QUOTA: Final = 14
ACCESS_CONTROL_ENTRY: Final = 18
REMOVE_ACCESS_CONTROL_ENTRY: Final = 19
REMOVE_USER_SCRAM_CREDENTIAL: Final = 22
REMOVE_DELEGATION_TOKEN: Final = 26

_KEYS: Final[dict[int, Callable[[Any], tuple[Hashable, bool]]]] = {
    DELEGATION_TOKEN: lambda record: (("token", record.token_id), False),
    REMOVE_DELEGATION_TOKEN: lambda record: (("token", record.token_id), True),
    USER_SCRAM_CREDENTIAL: lambda record: (("scram", record.name, record.mechanism), False),
    REMOVE_USER_SCRAM_CREDENTIAL: lambda record: (("scram", record.name, record.mechanism), True),
    ACCESS_CONTROL_ENTRY: lambda record: (("acl", record.id), False),
    REMOVE_ACCESS_CONTROL_ENTRY: lambda record: (("acl", record.id), True),
    CLIENT_QUOTA: lambda record: (("quota", record.entity, record.key), record.remove),
}
TYPES: Final = tuple(_KEYS)


def key_of(record: MetadataRecord) -> tuple[Hashable, bool]:
    """What the record is about, and whether it takes that away."""
    return _KEYS[record.__api_key__](record)
