"""The system's clock."""

import time


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed(self) -> float:
        return time.monotonic()
