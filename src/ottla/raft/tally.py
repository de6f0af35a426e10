"""The votes of one election."""

from collections.abc import Iterable

from ottla.raft.voters import ReplicaKey, VoterSet


class Tally:
    def __init__(self, voters: VoterSet, granting: Iterable[int]) -> None:
        self._voters = voters
        self._votes = {voter: True for voter in granting if voter in voters.nodes}

    def record(self, voter_id: int, granted: bool) -> None:
        """A later word of the same voter replaces an earlier one. Whoever is no voter has none."""
        if voter_id in self._voters.nodes:
            self._votes[voter_id] = granted

    @property
    def is_won(self) -> bool:
        return self._granted >= self._voters.majority

    @property
    def is_lost(self) -> bool:
        return self._granted + len(self.missing) < self._voters.majority

    @property
    def missing(self) -> list[ReplicaKey]:
        return [key for key in self._voters.keys if key.id not in self._votes]

    @property
    def granting(self) -> tuple[int, ...]:
        return tuple(voter for voter, granted in sorted(self._votes.items()) if granted)

    @property
    def _granted(self) -> int:
        return sum(self._votes.values())
