"""Judges a history: was everything kept that was promised, and nothing shown that never was?

By Kafka's contract, for one replica: what was appended survives the death of the process; of a loss of power it
survives as far as it was synced, and what is left is a beginning of what was there. Where flush.messages is 1, whatever
was acknowledged or shown is synced. Metadata is synced before anybody is told of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from ottla.sim.history import Death, History, Life, Opened, Witness
from ottla.sim.journal import Sent, short
from ottla.sim.log_files import PartitionId, StoredLog


def check(history: History) -> list[str]:
    """All violations: those that clients noticed, and those that show when everything is laid side by side."""
    return [*history.violations, *_check_lives(history), *_check_cluster(history)]


def _check_lives(history: History) -> Iterator[str]:
    served = [life for life in history.lives.values() if life.opened is not None]
    for life in served:
        yield from _check_opened(history, life)
        if life.deaths:
            yield from _check_within(history, life)
    for before, after in pairwise(served):
        yield from _check_between(history, before, after)


# -- one life


def _check_opened(history: History, life: Life) -> Iterator[str]:
    assert life.opened is not None
    for key, log in life.opened.logs.items():
        where = f"{history.name(key)}, as opened in life {life.number}"
        if log.trouble:
            yield f"{where}: recovery left it so that {log.trouble}"
        if log.end != life.opened.ends[key]:
            yield f"{where}: the node believes that it ends at {life.opened.ends[key]}, on disk it ends at {log.end}"
        yield from _check_contents(history, key, log, where)


def _check_within(history: History, life: Life) -> Iterator[str]:
    """Nothing that was there, acknowledged or read in a life has changed by its end."""
    death, opened = life.deaths[0], life.opened
    assert opened is not None
    for key, log in death.logs.items():
        where = f"{history.name(key)}, at the end of life {life.number}"
        yield from _check_contents(history, key, log, where)
        kept = opened.logs.get(key, StoredLog())
        for offset, record in kept.records.items():
            if offset >= log.start and log.records.get(offset) != record:
                yield f"{where}: {short(record.value)} at {offset} was there when the life began and is not any more"
    for what, witnessed in (("acknowledged to", life.acked), ("read by", life.read)):
        for key, witnesses in witnessed.items():
            if key in death.logs:
                yield from _check_witnesses(history, key, witnesses, death.logs[key], f"{what}", life.number)


def _check_witnesses(
    history: History, key: PartitionId, witnesses: dict[int, Witness], log: StoredLog, what: str, life: int
) -> Iterator[str]:
    start = max(log.start, history.starts.get(key, 0))
    for offset, (value, who, at) in witnesses.items():
        found = log.records.get(offset)
        if offset >= start and (found is None or found.value != value):
            instead = "nothing" if found is None else short(found.value)
            yield (
                f"{history.name(key)}: {short(value)} at {offset}, {what} {who} at {at:.3f} s in life {life}, is not "
                f"in the log of {log.start} to {log.end}; there is {instead}"
            )


def _check_contents(history: History, key: PartitionId, log: StoredLog, where: str) -> Iterator[str]:
    if key.topic_id in history.topics:  # else of a coordinator, which writes to it itself
        yield from check_contents(history.sent.get(key, {}), log, where, gaps=history.may_have_gaps(key))


def check_contents(sent: Mapping[bytes, Sent], log: StoredLog, where: str, *, gaps: bool = False) -> Iterator[str]:
    """Nothing that nobody sent, no sequence twice or out of turn, nothing more often than it was sent."""
    last: dict[tuple[int, int], int] = {}
    times: Counter[bytes] = Counter()
    for offset, (value, producer_id, epoch, sequence, *_) in log.records.items():
        record = sent.get(value)
        if record is None:
            yield f"{where}: nobody ever sent {short(value)!r}, which is at {offset}"
            continue
        if (producer_id, epoch, sequence) not in record.identities:
            yield f"{where}: {short(value)} at {offset} was never sent as {producer_id}, {epoch}, {sequence}"
        if producer_id >= 0:
            before = last.get((producer_id, epoch))
            if before is not None and (sequence != before + 1 if not gaps else sequence <= before):
                yield f"{where}: producer {producer_id} has sequence {sequence} at {offset} after {before}"
            last[producer_id, epoch] = sequence
        else:
            times[value] += 1
            if times[value] > record.attempts:
                yield f"{where}: {short(value)} is there {times[value]} times and was sent {record.attempts} times"


# -- from one life to the next


def _check_between(history: History, before: Life, after: Life) -> Iterator[str]:
    opened = after.opened
    assert opened is not None
    deaths = [
        death for life in history.lives.values() if before.number <= life.number < after.number for death in life.deaths
    ]
    if not deaths:
        yield f"life {after.number} began although life {before.number} never ended"
        return
    yield from _check_topics(history, before, after)
    for key, old in deaths[0].logs.items():
        story = history.topics.get(key.topic_id)
        if story is None or key.topic_id not in opened.topics:
            continue
        new = opened.logs.get(key)
        if new is None:
            if not opened.disk_failed:
                yield f"{history.name(key)} has no log in life {after.number}"
            continue
        where = f"{history.name(key)}, from life {before.number} to {after.number}"
        yield from _check_kept(history, key, old, new, deaths, where)
        if story.synced:
            for what, witnessed in (("acknowledged to", before.acked), ("read by", before.read)):
                yield from _check_witnesses(history, key, witnessed.get(key, {}), new, what, before.number)


def _check_kept(
    history: History, key: PartitionId, old: StoredLog, new: StoredLog, deaths: list[Death], where: str
) -> Iterator[str]:
    start = max(old.start, history.starts.get(key, 0))
    floor = old.end
    for death in deaths:
        if death.is_power_loss:
            floor = min(floor, death.sure.get(key, 0))
    if deaths[0].is_clean and floor < old.end and not history.may_have_gaps(key):
        yield f"{where}: a clean stop left records from {floor} to {old.end} unsynced"
    if new.end < floor:
        yield f"{where}: {_how(deaths)} left records up to {floor}, but the log now ends at {new.end}, not {old.end}"
    if new.records and new.start > start:
        yield f"{where}: the log begins at {new.start} instead of {start}"
    for offset, record in new.records.items():
        if offset >= start and old.records.get(offset) != record:
            was = old.records.get(offset)
            yield f"{where}: {short(record.value)} came to {offset}, where {short(was.value) if was else 'nothing'} was"


def _how(deaths: list[Death]) -> str:
    return "; ".join("a loss of power" if death.is_power_loss else "the end of the process" for death in deaths)


# -- metadata


def _check_topics(history: History, before: Life, after: Life) -> Iterator[str]:
    opened = after.opened
    assert opened is not None
    known = dict(before.seen_topics)
    if before.opened is not None:
        known |= before.opened.topics
    for topic_id, name in known.items():
        story = history.topics.get(topic_id)
        asked = story.delete_asked_at if story is not None else None
        if opened.topics.get(topic_id) != name and (asked is None or asked > opened.at):
            yield f"{name} ({topic_id}), known in life {before.number}, is gone in life {after.number}"
    for topic_id in opened.topics:
        story = history.topics.get(topic_id)
        if story is not None and opened.configs[topic_id] != story.configs:
            yield f"{story.name} has configs {opened.configs[topic_id]} in life {after.number}, not {story.configs}"
        if story is not None and story.deleted_in_life is not None and story.deleted_in_life < after.number:
            yield f"{story.name} ({topic_id}), deleted in life {story.deleted_in_life}, is back in life {after.number}"


def _check_cluster(history: History) -> Iterator[str]:
    ids: dict[str, Opened] = {}
    for life in history.lives.values():
        if life.opened is not None:
            ids.setdefault(life.opened.cluster_id, life.opened)
    if len(ids) > 1:
        yield f"the cluster had several ids: {', '.join(ids)}"
