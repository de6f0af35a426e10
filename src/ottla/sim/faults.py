"""What is to go wrong on a simulated disk, and when."""

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Literal, get_args

Operation = Literal[
    "create", "write", "truncate", "sync", "rename", "remove", "make_dir", "remove_dir", "sync_dir", "read"
]
OPERATIONS: frozenset[Operation] = frozenset(get_args(Operation))


class Moment(Enum):
    """When a crash comes, seen from the operation that it hits."""

    BEFORE = "before"
    DURING = "during"
    """A write is torn at a byte; what cannot be halved has happened or not, by seed."""
    AFTER = "after"


@dataclass(slots=True)
class Fault:
    """Operations on paths that match fail with an error of the system, `times` times or until healed."""

    pattern: str
    error: int
    operations: frozenset[Operation]
    times: int | None = None

    def hits(self, operation: Operation, path: str) -> bool:
        return (
            self.times != 0
            and operation in self.operations
            and (fnmatchcase(path, self.pattern) or fnmatchcase(path.rsplit("/", 1)[-1], self.pattern))
        )

    def heal(self) -> None:
        self.times = 0


class Faults:
    """The faults of one disk. A crash is planned by the number of the mutating operation that it hits, from 1 on."""

    __slots__ = ("_faults", "crash_moment", "crash_number")

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self.crash_number = 0
        self.crash_moment = Moment.BEFORE

    def add(self, pattern: str, error: int, operations: Iterable[Operation], times: int | None) -> Fault:
        chosen = frozenset(operations)
        if unknown := chosen - OPERATIONS:
            raise ValueError(f"no such disk operations: {sorted(unknown)}; there are {sorted(OPERATIONS)}")
        fault = Fault(pattern, error, chosen, times)
        self._faults.append(fault)
        return fault

    def error(self, operation: Operation, path: str) -> OSError | None:
        if not self._faults:
            return None
        for fault in self._faults:
            if fault.hits(operation, path):
                if fault.times is not None:
                    fault.times -= 1
                return system_error(fault.error, path)
        return None

    def heal(self) -> None:
        self._faults.clear()


def system_error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def bad_handle(path: str) -> OSError:
    return OSError(errno.EBADF, "the file has been closed", path)
