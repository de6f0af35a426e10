"""How far moves are: bytes that their new replicas have, of those that they will need."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.model.names import TopicPartition

if TYPE_CHECKING:
    from ottla.cli.admin.reassignments import Move
    from ottla.cli.admin.session import Session

WINDOW_S: Final = 30.0
BAR: Final = 20


class Copied(NamedTuple):
    """Of one partition. `total` follows its leader, which may be written to meanwhile."""

    move: Move
    done: int
    total: int


class Look(NamedTuple):
    partitions: Mapping[TopicPartition, Copied]
    known: int
    """How many partitions there were to move when it began."""
    done: int
    total: int

    @property
    def left(self) -> int:
        return len(self.partitions)

    @property
    def share(self) -> float:
        """What is done, of 1; by partitions where there is nothing to copy."""
        if self.total:
            return min(1.0, self.done / self.total)
        return (self.known - self.left) / self.known if self.known else 1.0


class Copying:
    """Looks again and again. What has ended counts with the bytes that it had to copy when it was last seen."""

    def __init__(self, only: Iterable[TopicPartition] | None = None) -> None:
        self._only = None if only is None else set(only)
        self._seen: dict[TopicPartition, int] = {}
        self._samples: deque[tuple[float, int]] = deque()

    async def look(self, there: Session) -> Look:
        from ottla.cli.admin import reassignments, replica_logs, topics

        moves = await reassignments.moves(there, self._only)
        names = sorted({place.topic for place in moves})
        leaders = {
            TopicPartition(topic.name, part.number): part.leader
            for topic in await topics.topics(there, names, leave_out_missing=True)
            for part in topic.partitions
        }
        wanted = {
            replica_logs.Replica(place, broker)
            for place, move in moves.items()
            for broker in (leaders.get(place, -1), *move.adding)
        }
        sizes = await replica_logs.sizes(there, wanted)
        partitions = {}
        for place, move in moves.items():
            size = sizes.get(replica_logs.Replica(place, leaders.get(place, -1)), 0)
            done = sum(min(size, sizes.get(replica_logs.Replica(place, broker), 0)) for broker in move.adding)
            partitions[place] = Copied(move, done, size * len(move.adding))
        ended = sum(total for place, total in self._seen.items() if place not in partitions)
        self._seen |= {place: copied.total for place, copied in partitions.items()}
        return Look(
            partitions,
            len(self._seen),
            ended + sum(copied.done for copied in partitions.values()),
            ended + sum(copied.total for copied in partitions.values()),
        )

    def rate(self, look: Look, now_s: float) -> float | None:
        """Bytes a second of the last half minute; None as long as there is nothing to compare with."""
        self._samples.append((now_s, look.done))
        while len(self._samples) > 2 and now_s - self._samples[0][0] > WINDOW_S:
            self._samples.popleft()
        first_s, first = self._samples[0]
        return None if now_s - first_s < 0.2 else max(0.0, (look.done - first) / (now_s - first_s))


def line(look: Look, rate: float | None) -> str:
    """For a person: `[#####---------------]  25%  1.2 GB of 4.8 GB, 45.1 MB/s, 1:20 left, 12 of 30 partitions`."""
    from ottla.cli.progress import bytes_text

    filled = int(look.share * BAR)
    parts = [f"{bytes_text(look.done)} of {bytes_text(look.total)}"]
    if rate is not None:
        parts.append(f"{bytes_text(rate)}/s")
    if (seconds := seconds_left(look, rate)) is not None:
        parts.append(f"{time_text(seconds)} left")
    parts.append(f"{look.left} of {look.known} to go")
    return f"[{'#' * filled}{'-' * (BAR - filled)}] {look.share:4.0%}  {', '.join(parts)}"


def seconds_left(look: Look, rate: float | None) -> float | None:
    left = look.total - look.done
    return left / rate if rate and left > 0 else None


def time_text(seconds: float) -> str:
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
