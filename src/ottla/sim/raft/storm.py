"""A run of the quorum through faults, by seed: kills, power losses, cuts, bad networks, changes of voters."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ottla.raft.messages import AddVoterRequest, RemoveVoterRequest
from ottla.raft.replica import InconsistentQuorum
from ottla.sim.raft.checks import Violation
from ottla.sim.raft.member import Member
from ottla.sim.raft.world import Weather, World


@dataclass(frozen=True, slots=True)
class Storm:
    """How hard it is."""

    duration_ms: int = 20_000
    faults: int = 8
    recovers_within_ms: int = 20_000
    down_for_ms: int = 4000
    """How long, at most, a node that was killed stays away."""
    leaders_die_young: float = 0.0
    """How likely it is that a leader is killed while its first records are on their way."""
    strands_leaders: bool = False
    """One leader after the other is cut off for longer than the others wait, and asked to change the voters meanwhile:
    what it appends is taken off its log again when it hears of its successor."""
    voters: tuple[int, ...] = (3, 3, 3, 5, 2, 4)
    dynamic: float = 0.7


_USUAL = Storm()


def run(seed: int, storm: Storm = _USUAL) -> Counter[str]:
    """What was seen on the way; Violation if a check failed, with the seed that repeats it."""
    try:
        return _Run(seed, storm).run()
    except (Violation, AssertionError, InconsistentQuorum) as error:
        raise Violation(f"seed {seed}: {error}") from error


class _Run:
    def __init__(self, seed: int, storm: Storm) -> None:
        self.storm = storm
        first = World(seed)
        self.random = first.random
        voters = self.random.choice(storm.voters)
        observers = self.random.choice((0, 1, 1, 2))
        self.is_dynamic = self.random.random() < storm.dynamic
        self.world = World(self.random.getrandbits(48), voters, observers, dynamic=self.is_dynamic)
        self.random = self.world.random
        self.world.down_for_ms = storm.down_for_ms
        self.world.on_leader = self._leader_elected
        self._wiped = False
        self._incarnations: Counter[int] = Counter()

    def run(self) -> Counter[str]:
        world, random = self.world, self.random
        world.weather = self._some_weather()
        for member in world.members.values():
            world.later(random.randint(0, 300), lambda member=member: world.start(member))  # type: ignore[misc]
        self._propose_now_and_then()
        self._snapshot_now_and_then()
        if self.storm.strands_leaders:
            world.later(random.randint(500, 3000), self._strand_now_and_then)
        times = sorted(random.randint(500, self.storm.duration_ms) for _ in range(self.storm.faults))
        for time in times:
            world.later(time, self._strike)
        world.run_for(self.storm.duration_ms)
        world.must_recover(self.storm.recovers_within_ms)
        world.counts["committed"] = world.checks.committed
        return world.counts

    def _leader_elected(self, leader: Member) -> None:
        if self.storm.leaders_die_young and self.random.random() < self.storm.leaders_die_young:
            life = leader.life
            self.world.later(self.random.randint(1, 60), lambda: self._kill_now(leader, life))

    def _strand_now_and_then(self) -> None:
        """Alone, or with whoever is beside it; whom it takes for voters does not matter."""
        if self._is_over:
            return
        leader = self.world.leader
        if leader is None or self.world.cut:
            self.world.later(self.random.randint(50, 500), self._strand_now_and_then)
            return
        ids = list(self.world.members)
        company = self.random.choice((0.0, 0.0, 0.3))
        some = {id for id in ids if id == leader.id or self.random.random() < company}
        length = self._cut_for_a_while({(a, b) for a in ids for b in ids if (a in some) != (b in some)}, 3000)
        self._change_one_of(leader, to_more=len(some) > 1 and self.random.random() < 0.5)
        self.world.counts["leaders stranded"] += 1
        self.world.later(length + self.random.randint(200, 3000), self._strand_now_and_then)

    @property
    def _is_over(self) -> bool:
        return self.world.now >= self.storm.duration_ms

    def _kill_now(self, member: Member, life: int) -> None:
        if member.life == life and not self._is_over:
            member.kill()
            self.world.restart_later(member)

    def _some_weather(self) -> Weather:
        random = self.random
        lossy = random.random() < 0.6
        slow = random.random() < 0.3
        return Weather(
            slowest_ms=random.choice((60, 300)) if slow else random.choice((3, 10)),
            loss=random.choice((0.01, 0.05, 0.2)) if lossy else 0.0,
            duplication=random.choice((0.0, 0.1, 0.3)),
            silence=random.choice((0.1, 0.5, 1.0)),
        )

    def _propose_now_and_then(self) -> None:
        for member in self.world.members.values():
            if member.is_up and member.quorum.is_leader and self.random.random() < 0.8:
                self.world.propose(member, self.random.randint(1, 3))
        self.world.later(self.random.randint(10, 250), self._propose_now_and_then)

    def _snapshot_now_and_then(self) -> None:
        member = self._someone()
        if member is not None:
            member.take_snapshot()
        self.world.later(self.random.randint(500, 6000), self._snapshot_now_and_then)

    def _someone(self) -> Member | None:
        up = [member for member in self.world.members.values() if member.is_up]
        return self.random.choice(up) if up else None

    def _strike(self) -> None:
        faults = [
            self._kill,
            self._kill_the_leader,
            self._power_loss,
            self._power_loss_of_all,
            self._die_between_effects,
            self._cut_off,
            self._cut_one_way,
            self._other_weather,
            self._resign,
            self._tell_of_a_death,
        ]
        if self.is_dynamic:
            faults += [self._change_voters] * 4 + [self._replace_disk]
        self.random.choice(faults)()

    def _kill(self) -> None:
        member = self._someone()
        if member is not None:
            member.kill()
            self.world.restart_later(member)

    def _kill_the_leader(self) -> None:
        leader = self.world.leader
        if leader is not None:
            leader.kill()
            self.world.restart_later(leader)

    def _power_loss(self) -> None:
        member = self._someone()
        if member is not None:
            member.lose_power()
            self.world.restart_later(member)

    def _power_loss_of_all(self) -> None:
        for member in self.world.members.values():
            if member.is_up:
                member.lose_power()
                self.world.restart_later(member)

    def _die_between_effects(self) -> None:
        member = self._someone()
        if member is not None:
            member.dies_in = self.random.randint(0, 12)

    def _cut_off(self) -> None:
        ids = list(self.world.members)
        some = set(self.random.sample(ids, self.random.randint(1, max(1, len(ids) - 1))))
        cut = {(a, b) for a in ids for b in ids if (a in some) != (b in some)}
        self._cut_for_a_while(cut)

    def _cut_one_way(self) -> None:
        ids = list(self.world.members)
        one = self.random.choice(ids)
        others = [id for id in ids if id != one]
        cut = {(one, id) for id in others} if self.random.random() < 0.5 else {(id, one) for id in others}
        self._cut_for_a_while(cut)

    def _cut_for_a_while(self, cut: set[tuple[int, int]], at_least_ms: int = 200) -> int:
        self.world.cut |= cut
        self.world.note(f"cut: {sorted(cut)}")
        length = self.random.randint(at_least_ms, 6000)
        self.world.later(length, self.world.cut.clear)
        return length

    def _other_weather(self) -> None:
        self.world.weather = self._some_weather()

    def _resign(self) -> None:
        leader = self.world.leader
        if leader is not None:
            leader.do(leader.quorum.resign(self.world.now))

    def _tell_of_a_death(self) -> None:
        """All survivors learn at once that the leader's process is gone."""
        leader = self.world.leader
        if leader is None:
            return
        leader.kill()
        self.world.restart_later(leader)
        for member in self.world.members.values():
            if member.is_up:
                member.do(member.quorum.leader_died(self.world.now, leader.id))

    def _change_voters(self) -> None:
        for _ in range(self.random.choice((1, 1, 2, 3))):
            self._change_voter()

    def _change_voter(self) -> None:
        leader = self.world.leader
        if leader is None:
            return
        voters = leader.quorum.voters
        has_others = any(not voters.has(member.key) for member in self.world.members.values())
        self._change_one_of(leader, to_more=has_others and (len(voters) <= 2 or self.random.random() < 0.5))

    def _change_one_of(self, leader: Member, *, to_more: bool) -> None:
        world, voters = self.world, leader.quorum.voters
        others = [member for member in world.members.values() if not voters.has(member.key)]
        if to_more and others:
            member = self.random.choice(others)
            acks = self.random.random() < 0.7
            request = AddVoterRequest("cluster", member.key, member.node.endpoints, ack_when_committed=acks)
            world.ask(leader, request)
        elif len(voters) > 1:
            there = [member.key for member in world.members.values()]
            gone = [key for key in voters.keys if key not in there]  # for good: with it, fewer would not be a majority
            world.ask(leader, RemoveVoterRequest("cluster", self.random.choice(gone or voters.keys)))

    def _replace_disk(self) -> None:
        """Once: a second loss could take the only copy that is left of what was committed. And only where three vote,
        also by what is not committed yet: of two none may be lost."""
        leader = self.world.leader
        if self._wiped or leader is None or len(self.world.checks.leaders) < 2:
            return
        if any(len(member.quorum.voters) < 3 for member in self.world.members.values()):
            return
        id = self.random.choice(list(self.world.members))
        self._wiped = True
        self._incarnations[id] += 1
        member = self.world.add_member(id, self._incarnations[id])
        self.world.counts["disks replaced"] += 1
        self.world.note(f"n{id} gets another disk")
        self.world.start(member)
