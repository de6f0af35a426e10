"""How long to rest after failures in a row."""

from typing import NamedTuple

from ottla.env.ports import Randomness

_JITTER_STEPS = 1000


class Backoff(NamedTuple):
    """Twice as long after each failure, up to a limit; spread a little, so that many do not come back at once."""

    first_ms: int
    most_ms: int
    jitter: float = 0.0

    def seconds(self, failures: int, random: Randomness) -> float:
        """After so many failures in a row."""
        if failures <= 0 or self.first_ms <= 0:
            return 0.0
        rest = min(self.first_ms * 2.0 ** min(failures - 1, 32), self.most_ms)
        if self.jitter:
            rest *= 1 - self.jitter + 2 * self.jitter * random.below(_JITTER_STEPS + 1) / _JITTER_STEPS
        return rest / 1000
