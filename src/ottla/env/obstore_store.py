"""Object stores by `obstore`: S3, GCS, Azure, a folder, or this process's memory.

Its blocking calls are used, in threads of our own: they release the GIL, while its asyncio ones may abort the process
when the interpreter ends (0.12.1). It is imported with the first store that is opened: most nodes have none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from ottla.env.disk import PosixDisk
from ottla.env.files import sync_file, sync_path_to
from ottla.env.object_store import ObjectMissing, ObjectStore, StoredObject, StoreError
from ottla.env.ports import Buffer
from ottla.model.config_error import ConfigError

if TYPE_CHECKING:
    import obstore.store

_log = logging.getLogger("ottla.tier")
T = TypeVar("T")
_THREADS: Final = 24
_LOOKERS: Final = 4
_CLOSES_WITHIN_S: Final = 2.0
PART_BYTES: Final = 8 * 1024 * 1024
_PARTS_AT_ONCE: Final = 2  # what an upload holds in memory, in parts
_BEHIND: Final = 5  # of niceness
_CLIENT: Final = "client_"
_DEFAULT_CLIENT_OPTIONS: Final = {"timeout": "30 seconds", "connect_timeout": "5 seconds"}
_RETRIES: Final[Any] = {"max_retries": 2, "retry_timeout": timedelta(seconds=20)}


def open_store(url: str, options: Mapping[str, str], *, make_folder: bool = True) -> ObjectStore:
    """Options are those that obstore has for the kind of store; those of its HTTP client begin with `client_`.

    Who only looks at a folder that is not there does not make it.
    """
    import obstore.exceptions
    import obstore.store

    _start_runtime()
    parts = urlsplit(url)
    if parts.scheme == "file" and (parts.netloc not in ("", "localhost") or not parts.path.startswith("/")):
        raise ConfigError("rsm.config.url", url, "a folder has three slashes and its whole path: file:///mnt/tier")
    try:
        if parts.scheme == "file":
            store: obstore.store.ObjectStore = obstore.store.LocalStore(
                unquote(parts.path), automatic_cleanup=True, mkdir=make_folder
            )
            return ObstoreStore(store, unquote(parts.path))
        if parts.scheme == "memory":
            return ObstoreStore(obstore.store.MemoryStore())
        config = {name: value for name, value in options.items() if not name.startswith(_CLIENT)}
        client: dict[str, Any] = dict(_DEFAULT_CLIENT_OPTIONS)
        client.update({name[len(_CLIENT) :]: value for name, value in options.items() if name.startswith(_CLIENT)})
        if any(value.startswith("http://") for name, value in config.items() if _is_address(name)):
            client.setdefault("allow_http", "true")
        opened: Any = obstore.store.from_url(url, config=config, client_options=client, retry_config=_RETRIES)  # type: ignore[call-overload,unused-ignore]
        return ObstoreStore(opened)
    except (obstore.exceptions.BaseError, OSError, ValueError, TypeError) as error:
        raise ConfigError("rsm.config.url", url, f"the store cannot be opened: {_first_line(error)}") from error


def _is_address(name: str) -> bool:
    return "endpoint" in name or name.endswith("base_url")  # GCS has the latter


class ObstoreStore:
    def __init__(self, store: obstore.store.ObjectStore, folder: str | None = None) -> None:
        """`folder` is where the objects lie if they are files of this machine."""
        self._store = store
        self._folder = folder
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ottla-store")
        # What came is looked at before more is brought: behind hundreds of requests it would pile up in memory.
        self._lookers = ThreadPoolExecutor(_LOOKERS, thread_name_prefix="ottla-store-looks")
        self._under_way: set[Future[Any]] = set()

    async def put(self, key: str, data: Iterable[bytes]) -> None:
        def put() -> None:
            import obstore

            pieces = iter(data)
            beginning, is_all = _beginning(pieces)
            if is_all:  # one request, not the three that an object of parts takes at least
                obstore.put(self._store, key, b"".join(beginning), use_multipart=False)
            else:
                whole = chain(_given_away(beginning), pieces)
                obstore.put(self._store, key, whole, chunk_size=PART_BYTES, max_concurrency=_PARTS_AT_ONCE)
            if self._folder is not None:
                path = f"{self._folder}/{key}"
                disk = PosixDisk()
                sync_file(disk, path)
                sync_path_to(disk, path.rpartition("/")[0])

        await self._ask(key, put)

    async def get(self, key: str, start: int, end: int) -> Buffer:
        import obstore

        return await self._ask(key, lambda: memoryview(obstore.get_range(self._store, key, start=start, end=end)))

    async def read(self, key: str) -> bytes:
        import obstore

        return await self._ask(key, lambda: bytes(obstore.get(self._store, key).bytes()))

    async def delete(self, keys: Sequence[str]) -> None:
        import obstore

        for key in keys:  # one by one: a store that refuses one of many does not say what became of the others
            try:
                await self._ask(key, lambda key=key: obstore.delete(self._store, key))  # type: ignore[misc]
            except ObjectMissing:
                pass

    async def list(self, prefix: str) -> list[StoredObject]:
        import obstore

        def found() -> Iterator[StoredObject]:
            for chunk in obstore.list(self._store, prefix or None):
                for each in chunk:
                    yield StoredObject(each["path"], each["size"])

        return await self._ask(prefix or "the list of objects", lambda: sorted(found()))

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await self._call(self._lookers, work)

    async def close(self) -> None:
        """A store that does not answer is not waited for: whoever stops has more to do, and its requests have time
        limits of their own, until which the process stays."""
        for threads in (self._threads, self._lookers):
            threads.shutdown(wait=False, cancel_futures=True)
        left = [asyncio.wrap_future(each) for each in self._under_way.copy()]
        try:
            async with asyncio.timeout(_CLOSES_WITHIN_S):
                await asyncio.gather(*left, return_exceptions=True)
        except TimeoutError:
            _log.warning("the store does not answer: what it was asked for is given up, and ends when its time is over")

    async def _call(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        future = threads.submit(work)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return await asyncio.wrap_future(future)

    async def _ask(self, key: str, call: Callable[[], T]) -> T:
        from obstore.exceptions import BaseError, NotFoundError

        try:
            return await self._call(self._threads, call)
        except (NotFoundError, FileNotFoundError) as error:
            raise ObjectMissing(f"{key} is not in the store") from error
        except (BaseError, OSError, RuntimeError) as error:
            raise StoreError(f"the store failed on {key}: {_first_line(error)}") from error


def _beginning(pieces: Iterator[bytes]) -> tuple[list[bytes], bool]:
    """As much as is a part, and whether that is all."""
    some, size = list[bytes](), 0
    for piece in pieces:
        some.append(piece)
        size += len(piece)
        if size > PART_BYTES:
            return some, False
    return some, True


def _given_away(pieces: list[bytes]) -> Iterator[bytes]:
    """One after the other, so that none is held twice."""
    pieces.reverse()
    while pieces:
        yield pieces.pop()


@cache
def _start_runtime() -> None:
    """obstore's own threads, which never hold the GIL, come after the loop where there are not processors for all: they
    inherit that from the one that first uses it. Ours do hold it at times, so the loop would wait for them."""
    if sys.platform != "linux":  # elsewhere it is for whole processes
        return

    def start() -> None:
        import obstore
        import obstore.store

        with contextlib.suppress(OSError):
            current = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), current + _BEHIND)
        obstore.put(obstore.store.MemoryStore(), "first", b"")

    thread = threading.Thread(target=start, name="ottla-store-start")
    thread.start()
    thread.join()


def _first_line(error: BaseException) -> str:
    """obstore appends the structure of the error as a program sees it."""
    return str(error).split("\n", 1)[0]
