"""What a person reads of a run that failed: who did what and when, and what became of the record that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.sim.cluster.oracle import Oracle, PartitionStory
from ottla.sim.journal import Place, short
from ottla.sim.trace import Trace, TraceEvent

_TOLD: Final = frozenset(
    {
        "fault", "healed", "start", "crash", "power loss", "pause", "resume", "net partition", "net reconnect",
        "net delay", "new disk", "disk rot", "rot", "partition", "lost", "excused", "truncations", "violation",
        "workload",
    }
)  # fmt: skip
_BEFORE_THE_END: Final = 120


def timeline(trace: Trace, oracle: Oracle) -> str:
    """The last events before the end of the run, and for each record that is complained of where it was."""
    events = list(_joined([event for event in trace.events if event.event in _TOLD]))
    left_out = max(0, len(events) - _BEFORE_THE_END)
    told = [f"  ... {left_out} earlier ones, which replay with --trace has"] if left_out else []
    told += (f"  {time:9.3f} s  {what}" for time, what in events[left_out:])
    for complaint in oracle.complaints[:3]:
        if complaint.about is not None:
            told += _record(oracle, complaint.about)
    return "\n".join(told)


def _joined(events: list[TraceEvent]) -> Iterator[tuple[float, str]]:
    """Of what a network does at one moment, one line."""
    number = 0
    while number < len(events):
        time, host, event, details = events[number]
        same = [details]
        if event.startswith("net "):
            while number + 1 < len(events) and events[number + 1][:3] == (time, host, event):
                number += 1
                same.append(events[number].details)
        yield time, _words(host, event, "; ".join(same))
        number += 1


def _words(host: str, event: str, details: str) -> str:
    match event:
        case "fault":
            return f"FAULT {details}"
        case "violation":
            return f"VIOLATION {details}"
        case "start" | "crash" | "power loss" | "new disk" | "pause" | "resume":
            return f"{host}: {event}, {details.partition(',')[0]}"
        case "net partition":
            return f"not heard any more: {details}"
        case "net reconnect":
            return f"heard again: {details}"
        case "net delay":
            return f"slow: {details} s"
        case "truncations":
            return f"{host}: {details}"
        case _:
            return f"{event}: {details}" if event not in ("partition", "workload") else details


def _record(oracle: Oracle, place: Place) -> Iterator[str]:
    story = oracle.partitions.get(place.partition)
    if story is None:
        return
    fact = story.facts.get(place.offset)
    value = fact.value if fact is not None else story.appended.get(place.offset, (b"", 0))[0]
    yield f"  what became of {short(value)}, {story.name} at {place.offset}:"
    sent = oracle.sent.get(place.partition, {}).get(value)
    if sent is not None:
        yield f"    sent {sent.attempts} times, first at {sent.first_at:.3f} s"
    if fact is not None:
        yield f"    committed, as {fact.who} knew at {fact.at:.3f} s"
    for node, spans in sorted(_whereabouts(story, place.offset).items()):
        times = ", ".join(
            f"from {since:.1f} s to {f'{until:.1f} s' if until is not None else 'the end'}" for since, until in spans
        )
        yield f"    node {node}: its log went beyond that offset {times or 'never'}"


def _whereabouts(story: PartitionStory, offset: int) -> dict[int, list[tuple[float, float | None]]]:
    """By node, the times in which its log was seen to have something at an offset."""
    found: dict[int, list[tuple[float, float | None]]] = {}
    for node, seen in story.seen.items():
        spans = found.setdefault(node, [])
        for at, end in seen:
            has_it, had_it = end > offset, bool(spans) and spans[-1][1] is None
            if has_it and not had_it:
                spans.append((at, None))
            elif had_it and not has_it:
                spans[-1] = (spans[-1][0], at)
    return found
