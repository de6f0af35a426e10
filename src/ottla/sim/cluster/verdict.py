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
    if not story.is_internal:
        yield from check_contents(oracle.sent.get(story.id, {}), leading, f"{story.name} at node {story.leader}")
    for replica in story.replicas:
        log = logs.get(replica)
        if log is None:
            yield f"{story.name} has no log at node {replica}"
        elif log.trouble:
            yield f"{story.name} at node {replica}: {log.trouble}"
        elif log.end != leading.end or log.records != leading.records:
            first = next((at for at in range(leading.end) if log.records.get(at) != leading.records.get(at)), log.end)
            yield (
                f"{story.name} ends at {log.end} at node {replica} and at {leading.end} at its leader {story.leader}; "
                f"the first difference is at {first}"
            )


def _check_promises(oracle: Oracle, story: PartitionStory, leading: StoredLog) -> None:
    for offset, fact in story.facts.items():
        found = leading.records.get(offset)
        if not fact.is_excused and (found is None or found.value != fact.value):
            instead = "nothing" if found is None else short(found.value)
            oracle.complain(
                f"{story.name}: {short(fact.value)} at {offset}, which {fact.who} had at {fact.at:.3f} s, is lost; "
                f"there is {instead}",
                Place(story.id, offset),
            )
    for offset, (value, epoch) in story.appended.items():
        found = leading.records.get(offset)
        if epoch == story.leader_epoch and not story.excuses and (found is None or found.value != value):
            oracle.complain(
                f"{story.name}: {short(value)} at {offset} is lost, although its leader never changed",
                Place(story.id, offset),
            )
