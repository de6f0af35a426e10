"""What producers asked for and were told of their transactions, and what readers of committed records may see of them.

A transaction is a transfer: it takes from one account and gives to another, in two records each. Accounts are
partitions, and values say all that a checker needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from ottla.sim.cluster.oracle import Oracle


class Told(Enum):
    NOTHING = auto()
    """Its producer does not know how it ended, or died before it did."""
    COMMITTED = auto()
    NOT_COMMITTED = auto()


class Entry(NamedTuple):
    """One record of a transfer."""

    transfer: str
    account: int
    number: int
    of: int
    amount: int

    def value(self) -> bytes:
        return f"{self.transfer}|{self.account}|{self.number}|{self.of}|{self.amount}".encode()

    @classmethod
    def read(cls, value: bytes) -> Entry:
        transfer, *numbers = value.decode().split("|")
        return cls(transfer, *map(int, numbers))


@dataclass(slots=True)
class Transfer:
    entries: tuple[Entry, ...]
    commit_was_asked: bool = False
    told: Told = Told.NOTHING

    def in_account(self, account: int) -> int:
        return sum(entry.account == account for entry in self.entries)


class Ledger:
    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.transfers: dict[str, Transfer] = {}

    def begins(self, name: str, entries: tuple[Entry, ...]) -> None:
        self.transfers[name] = Transfer(entries)

    def asks_to_commit(self, name: str) -> None:
        self.transfers[name].commit_was_asked = True

    def told(self, name: str, told: Told) -> None:
        self.transfers[name].told = told
        self.oracle.counts[f"transfers: {told.name.lower().replace('_', ' ')}"] += 1


class Statement:
    """What one reader of committed records has seen, account by account."""

    def __init__(self, ledger: Ledger, who: str) -> None:
        self._ledger = ledger
        self._who = who
        self._seen: dict[str, Counter[int]] = {}
        self._open: dict[str, None] = {}  # transfers of which something is still to come, in the order they were seen
        self._sum = 0

    def read(self, entry: Entry) -> None:
        """A committed record. Nobody may see one of a transaction that nobody wanted to commit."""
        complain, transfer = self._ledger.oracle.complain, self._ledger.transfers.get(entry.transfer)
        if transfer is None or not transfer.commit_was_asked:
            complain(f"{self._who} read {entry}, whose transaction nobody has committed")
            return
        if transfer.told is Told.NOT_COMMITTED:
            complain(f"{self._who} read {entry}, whose producer was told that it is not committed")
        seen = self._seen.setdefault(entry.transfer, Counter())
        seen[entry.account] += 1
        self._sum += entry.amount
        if seen[entry.account] > transfer.in_account(entry.account):
            complain(f"{self._who} read {entry} twice")
        if seen.total() == len(transfer.entries):
            self._open.pop(entry.transfer, None)
        else:
            self._open[entry.transfer] = None

    def stable(self, account: int) -> None:
        """All below the last stable offset of an account has been read: there are no halves of a transaction there."""
        for name in self._open:
            seen, wanted = self._seen[name][account], self._ledger.transfers[name].in_account(account)
            if 0 < seen < wanted:
                self._ledger.oracle.complain(
                    f"{self._who} read {seen} of the {wanted} records of {name} in account {account}, and no more are "
                    f"to come"
                )
        if not self._open:
            self._ledger.oracle.counts["sums of all accounts"] += 1
            if self._sum:
                self._ledger.oracle.complain(f"{self._who}: the sum of all accounts is {self._sum}")

    def at_the_end(self) -> Iterator[str]:
        """Everything has been read: what is seen of a transaction is all of it, and what was promised is there."""
        for name, transfer in self._ledger.transfers.items():
            seen = self._seen.get(name, Counter()).total()
            if seen and seen != len(transfer.entries):
                yield f"{self._who} read {seen} of {len(transfer.entries)} records of {name}"
            elif not seen and transfer.told is Told.COMMITTED:
                yield f"{self._who} did not read {name}, whose producer was told that it is committed"
