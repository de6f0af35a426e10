"""What the controller decides: records to append, and a reply that is valid once they are committed."""

from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from ottla.metadata.records.base import MetadataRecord
from ottla.model.errors import ErrorCode

R = TypeVar("R")


class ApiError(NamedTuple):
    """One of Kafka's errors and the words Kafka has for it. An error of a part of a request: others may succeed."""

    code: ErrorCode
    message: str | None = None


NO_ERROR: Final = ApiError(ErrorCode.none)
MAX_RECORDS: Final = 10_000  # that one request may bring about


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[R]):
    """The records are one batch: all of them come to be, or none. With an error there are no records.

    Where each record stands for itself and there may be very many (a broker goes that was in most ISRs), they need not
    be one batch: `is_whole` is then False.
    """

    reply: R
    records: tuple[MetadataRecord, ...] = ()
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Refused:
    """The whole request came to nothing."""

    error: ApiError
