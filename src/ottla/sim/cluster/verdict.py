"""At the end, when all replicas are in sync: their logs are the same, and hold everything that was promised."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.sim.checkers import check_contents
from ottla.sim.cluster.logs import ReplicaLogs
from ottla.sim.cluster.oracle import Oracle, PartitionStory
from ottla.sim.journal import Place, short
from ottla.sim.log_files import StoredLog


def check_logs(oracle: Oracle, logs: ReplicaLogs) -> None:
    for key, story in oracle.partitions.items():
        for violation in _check(oracle, story, logs.get(key, {})):
            oracle.complain(violation)
        if (leading := logs.get(key, {}).get(story.leader)) is not None:
            _check_promises(oracle, story, leading)


def _check(oracle: Oracle, story: PartitionStory, logs: dict[int, StoredLog]) -> Iterator[str]:
    leading = logs.get(story.leader)
    if leading is None:
        yield f"{story.name} has no log at its leader {story.leader}"
        return
    compact = story.cleanup.compact
    if not story.is_internal:
        where = f"{story.name} at node {story.leader}"
        yield from check_contents(oracle.sent.get(story.id, {}), leading, where, gaps=compact)
    for replica in story.replicas:
        log = logs.get(replica)
        if log is None:
            yield f"{story.name} has no log at node {replica}"
        elif log.trouble:
            yield f"{story.name} at node {replica}: {log.trouble}"
        elif (first := _first_difference(log, leading, compact=compact)) is not None:
            yield (
                f"{story.name} ends at {log.end} at node {replica} and at {leading.end} at its leader {story.leader}; "
                f"the first difference is at {first}"
            )
        if log is not None and compact:
            yield from _check_cleaned(oracle, story, log, replica)


def _first_difference(log: StoredLog, leading: StoredLog, *, compact: bool) -> int | None:
    """Replicas give up what is old, and clean, each at its own time: what both have is the same."""
    start = max(log.start, leading.start)
    if log.end == leading.end and log.records == leading.records:
        return None
    for offset in range(start, max(log.end, leading.end)):
        found, wanted = log.records.get(offset), leading.records.get(offset)
        if found != wanted and not (compact and (found is None or wanted is None)):
            return offset
    return None if log.end == leading.end else min(log.end, leading.end)


def _check_cleaned(oracle: Oracle, story: PartitionStory, log: StoredLog, node: int) -> Iterator[str]:
    """Of each key the last value is there, at every replica; only what a later one replaces is cleaned away."""
    there = {record.key: offset for offset, record in sorted(log.records.items())}
    last: dict[bytes, int] = {}
    for offset, fact in story.facts.items():
        oracle.counts["records cleaned away"] += offset not in log.records
        if fact.key is not None and not fact.is_excused:
            last[fact.key] = max(offset, last.get(fact.key, -1))
    for key, offset in last.items():
        fact = story.facts[offset]
        may_go = not fact.value and not story.cleanup.keeps_deletions
        if there.get(key, -1) < offset and not may_go and story.lost_keys.get(key, -1) < offset:
            yield (
                f"{story.name}: {short(fact.value)} of {key!r} at {offset}, which {fact.who} had at {fact.at:.3f} s, "
                f"is lost at node {node}, and nothing has replaced it"
            )


def _first_here(story: PartitionStory, leading: StoredLog) -> int:
    """From where on all must be on the leader's disk. What is in the object store is looked at where it is."""
    return leading.start if story.cleanup.tiered else min(story.given_up, leading.start)


def _check_promises(oracle: Oracle, story: PartitionStory, leading: StoredLog) -> None:
    for offset, fact in story.facts.items():
        found = leading.records.get(offset)
        if found is None and (story.cleanup.compact or offset < _first_here(story, leading)):
            continue
        if not fact.is_excused and (found is None or found.value != fact.value):
            instead = "nothing" if found is None else short(found.value)
            oracle.complain(
                f"{story.name}: {short(fact.value)} at {offset}, which {fact.who} had at {fact.at:.3f} s, is lost; "
                f"there is {instead}",
                Place(story.id, offset),
            )
    for offset, (value, epoch) in story.appended.items():
        found = leading.records.get(offset)
        if story.cleanup.compact or offset < _first_here(story, leading):
            continue
        if epoch == story.leader_epoch and not story.excuses and (found is None or found.value != value):
            oracle.complain(
                f"{story.name}: {short(value)} at {offset} is lost, although its leader never changed",
                Place(story.id, offset),
            )
