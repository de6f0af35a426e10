"""The ports: everything that a node asks of the world outside goes through one of these.

The real ones (clock.py, disk.py, network.py, executor.py) are thin. The simulated ones (ottla.sim) make a whole node
deterministic and let a crash happen between any two operations. Time for waiting is the event loop's own: the simulated
world brings a loop whose clock jumps.

Rules of the disk port:
- `write`, `truncate`, `rename`, `remove` and `open` are inline; they change what readers see at once (the page cache).
- Nothing is durable until `sync` (a file's bytes and size) or `sync_dir` (names in a folder) has returned. Both block,
  so they are called through the executor, except while a node starts.
- `pread_nowait` gives None where the answer is not in memory; the caller then reads in the executor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, ParamSpec, Protocol, TypeVar, runtime_checkable
from uuid import UUID

from ottla.env.metrics import Metrics
from ottla.env.object_store import ObjectStore, StoreOpener

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
Buffer = bytes | bytearray | memoryview


class Clock(Protocol):
    """Wall-clock time. Durations and deadlines come from the event loop's `time()`."""

    def now_ms(self) -> int: ...
    def elapsed(self) -> float:
        """Seconds on a clock that goes on within a turn of the loop, whose own `time()` may stand still there."""


class Readable(Protocol):
    """What an answer can be sent from, piece by piece. Positions are the caller's business: there is no cursor."""

    path: str
    gives_way: ClassVar[bool]
    """Whether all others have their turn after each piece: whoever reads it has time, and there is much of it."""

    def pread(self, size: int, position: int) -> bytes: ...
    def pread_nowait(self, size: int, position: int) -> bytes | bytearray | None: ...
    def send_nowait(self, socket: int, size: int, position: int) -> int:
        """Hands bytes to a socket as far as neither has to wait and says how many; 0: to be read and written."""


class File(Readable, Protocol):
    """An open file."""

    def size(self) -> int: ...
    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        """Puts all of the buffers at a position or raises OSError; after an error the bytes beyond it are undefined."""

    def truncate(self, size: int) -> None: ...
    def write_out(self, position: int, size: int) -> None:
        """Asks for bytes to be put on the disk soon, and does not wait: the sync that follows has less to do."""

    def sync(self) -> None: ...
    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are strings with `/`; lists are sorted."""

    def open(self, path: str, *, create: bool = False) -> File: ...
    def list_dir(self, path: str) -> list[str]: ...
    def list_folders(self, path: str) -> list[str]:
        """The names in a folder that are folders themselves."""

    def exists(self, path: str) -> bool: ...
    def is_dir(self, path: str) -> bool: ...
    def file_size(self, path: str) -> int: ...
    def modified_ms(self, path: str) -> int: ...
    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...
    def make_dirs(self, path: str) -> None: ...
    def rename(self, source: str, target: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def remove_tree(self, path: str) -> None: ...
    def sync_dir(self, path: str) -> None: ...
    def space(self, path: str) -> tuple[int, int]:
        """Bytes of the file system that a path lies on, and how many of them can still be used. May block."""

    def lock(self, path: str) -> Callable[[], None]:
        """Takes an exclusive lock and gives what releases it; BlockingIOError if another process has it."""


class Listener(Protocol):
    """A port that is taken; nobody is answered on it before `serve`."""

    host: str
    port: int

    async def serve(self) -> None: ...
    def resume(self) -> None:
        """The gate may let in someone again."""

    def close(self) -> None: ...


class Gate(Protocol):
    """Who is let in at a listener. Those who must wait do so in its backlog."""

    def wait(self) -> float:
        """For how many seconds nobody is let in: 0 if the next may come, infinite until `resume`."""

    def accepted(self, host: str) -> bool:
        """Someone came. False sends him away; otherwise he counts until `gone`."""

    def gone(self, host: str) -> None: ...


class SocketOptions(NamedTuple):
    """Of a listener and the connections that it accepts. -1 leaves a buffer's size to the system."""

    backlog: int = 4096  # how many connections may wait to be accepted; the system may allow less
    send_buffer: int = -1
    receive_buffer: int = -1


BY_DEFAULT: Final = SocketOptions()


@runtime_checkable
class KnowsPeer(Protocol):
    """A protocol that is told who was accepted: a transport cannot tell it of one that has ended already."""

    host: str


class Network(Protocol):
    """TCP, in asyncio's terms: transports and (buffered) protocols."""

    async def listen(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        gate: Gate | None = None,
        options: SocketOptions = BY_DEFAULT,
    ) -> Listener:
        """`gate.gone` is called here only for connections that never came to be; for others their protocol does it."""

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]: ...


class Workplace(Protocol):
    """What long work in a process of its own has of the world."""

    disk: Disk

    def tell(self, news: object) -> None:
        """Something for the node to hear while the work goes on."""

    def retire(self) -> None:
        """The process shall end after this work: it has grown, and would not give back what it took."""

    def come_last(self) -> None:
        """From here on everybody else's work is more urgent than that of this process."""

    def let_others(self) -> None:
        """Whoever waits for the processor comes first now: to be called after a fraction of a millisecond of work."""

    def rest(self, seconds: float) -> None: ...
    def elapsed(self) -> float:
        """Seconds on a clock that only goes forward."""


class WorkerDied(Exception):
    """A process has ended in the middle of its work, perhaps for the memory it took."""


class Executor(Protocol):
    """Work that must not happen on the loop."""

    def blocking(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """In a thread: for system calls that release the GIL (fsync, unlink, cold reads)."""

    def compute(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """In another process: for Python code that burns CPU. Function and arguments are sent, so keep them plain."""

    def beside(
        self, work: Callable[[Workplace, A], T], order: A, heard: Callable[[Any], None]
    ) -> asyncio.Future[T]:  # fmt: skip
        """In a process that has nothing else to do, with files and memory of its own: for work of seconds and more.

        `heard` gets on the loop what the work tells. Cancelling the future ends the process, wherever the work is.
        """

    def close(self) -> None: ...


class Randomness(Protocol):
    def uuid(self) -> UUID: ...
    def below(self, n: int) -> int: ...


def _open_store(url: str, options: Mapping[str, str]) -> ObjectStore:
    from ottla.env.obstore_store import open_store

    return open_store(url, options)


@dataclass(frozen=True, slots=True)
class Env:
    """The world of one node."""

    clock: Clock
    disk: Disk
    network: Network
    executor: Executor
    random: Randomness
    metrics: Metrics = field(default_factory=Metrics)
    open_store: StoreOpener = _open_store

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()
