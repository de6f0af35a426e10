"""What a node imports only when somebody asks for it: so it starts fast, and nobody waits for it afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from importlib import import_module
from threading import Thread
from typing import Final

from ottla.broker.context import Api

_PARTS: Final = (
    "ottla.broker.group_history",
    "ottla.coordinator.group.machine",
    "ottla.coordinator.txn.machine",
    "ottla.raft.rpc",
)


def import_in_background(apis: Iterable[Api]) -> None:
    """In a thread, since imports may take some tenths of a second in all; a request for one of them just waits."""
    Thread(target=import_all, args=(tuple(apis),), name="imports", daemon=True).start()


def import_all(apis: Iterable[Api]) -> None:
    for api in apis:
        api.load()
    for module in _PARTS:
        import_module(module)
    gc.freeze()  # it stays for good: full collections need not look at it again
