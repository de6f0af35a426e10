"""`python -m bench.s3_reader PORT SECONDS`: reads all batches in the store over and over, past the node, at full speed.

What others feel of it is the machine's share of what they feel of cold reads.
"""

from __future__ import annotations

import sys
import threading
import time
from itertools import cycle
from typing import Any

from bench.s3_gateway import settings

_AT_ONCE, _READ_BYTES = 8, 4 << 20


def opened(port: int) -> Any:
    import obstore.store

    given = {name.removeprefix("rsm.config.").replace(".", "_"): value for name, value in settings(port).items()}
    url = given.pop("url")
    return obstore.store.from_url(url, config=given, client_options={"allow_http": True})  # type: ignore[call-overload,unused-ignore]


def round_trip_ms(port: int, times: int = 15) -> float:
    """What one small request takes, in the middle of several."""
    import obstore

    store = opened(port)
    key = next(each["path"] for some in obstore.list(store) for each in some if each["size"])
    took = []
    for _ in range(times):
        began = time.perf_counter()
        obstore.get_range(store, key, start=0, end=1)
        took.append((time.perf_counter() - began) * 1000)
    return sorted(took)[times // 2]


def main(port: int, seconds: float) -> None:
    import obstore

    store = opened(port)
    logs = [each for some in obstore.list(store) for each in some if each["path"].endswith(".log")]
    ranges = cycle(
        (each["path"], start, min(start + _READ_BYTES, each["size"]))
        for each in logs
        for start in range(0, each["size"], _READ_BYTES)
    )
    ends, turn = time.monotonic() + seconds, threading.Lock()

    def read() -> None:
        while time.monotonic() < ends:
            with turn:
                key, start, end = next(ranges)
            obstore.get_range(store, key, start=start, end=end)

    readers = [threading.Thread(target=read) for _ in range(_AT_ONCE)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
