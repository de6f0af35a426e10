"""The votes of one election."""

from collections.abc import Iterable

from ottla.raft.voters import ReplicaKey, VoterSet


class Tally:
    def __init__(self, voters: VoterSet, granting: Iterable[int]) -> None:
        self._voters = voters
        self._votes = {voter: True for voter in granting if voter in voters.nodes}
        self._unreachable: dict[int, None] = {}

    def record(self, voter_id: int, granted: bool) -> None:
        """A later word of the same voter replaces an earlier one. Whoever is no voter has none."""
        self._unreachable.pop(voter_id, None)
        if voter_id in self._voters.nodes:
            self._votes[voter_id] = granted

    def cannot_reach(self, voter_id: int) -> None:
        """It may be back any moment and is asked again, but who knows."""
        self._unreachable[voter_id] = None

    @property
    def is_hopeless(self) -> bool:
        """Lost, unless somebody votes who cannot be reached."""
        reachable = [key for key in self.missing if key.id not in self._unreachable]
        return self._granted + len(reachable) < self._voters.majority

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
