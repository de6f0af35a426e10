"""At the end, when all replicas are in sync: their logs are the same, and hold everything that was promised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.sim.checkers import check_contents
from ottla.sim.cluster.member import LOG_DIR, Member
from ottla.sim.cluster.oracle import Oracle, PartitionStory
from ottla.sim.journal import short
from ottla.sim.log_files import StoredLog, partition_folders, read_folder


def check_logs(oracle: Oracle, members: Sequence[Member]) -> None:
    logs: dict[object, dict[int, StoredLog]] = {}
    for member in members:
        files = member.disk.snapshot()
        for key, folder in partition_folders(files, LOG_DIR).items():
            logs.setdefault(key, {})[member.id] = read_folder(files, folder)
    for key, story in oracle.partitions.items():
        for violation in _check(oracle, story, logs.get(key, {})):
            oracle.complain(violation)


def _check(oracle: Oracle, story: PartitionStory, logs: dict[int, StoredLog]) -> Iterator[str]:
    leading = logs.get(story.leader)
    if leading is None:
        yield f"{story.name} has no log at its leader {story.leader}"
        return
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
    for offset, fact in story.facts.items():
        found = leading.records.get(offset)
        if not fact.is_excused and (found is None or found.value != fact.value):
            instead = "nothing" if found is None else short(found.value)
            yield (
                f"{story.name}: {short(fact.value)} at {offset}, which {fact.who} had at {fact.at:.3f} s, is lost; "
                f"there is {instead}"
            )
    for offset, (value, epoch) in story.appended.items():
        found = leading.records.get(offset)
        if epoch == story.leader_epoch and not story.excuses and (found is None or found.value != value):
            yield f"{story.name}: {short(value)} at {offset} is lost, although its leader never changed"
