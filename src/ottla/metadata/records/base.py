"""What all metadata records have in common."""

from typing import Any, ClassVar, Final
from uuid import UUID

from kio.static.constants import EntityType

NO_UUID: Final = UUID(int=0)


class MetadataRecord:
    """A record of `__cluster_metadata`, in the newest version of its type unless it is just being decoded."""

    __slots__ = ()
    __api_key__: ClassVar[int]
    __type__: ClassVar[EntityType]
    __version__: ClassVar[int]
    __flexible__: ClassVar[bool]
    __dataclass_fields__: ClassVar[dict[str, Any]]
