"""What malloc does with freed memory, seen in a process of its own: it is told once and for all."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PIECES = """
import resource, sys
from ottla.env.heap import keep_freed_memory

if sys.argv[1] == "kept" and not keep_freed_memory():
    sys.exit(3)
MIB = 1 << 20
def take_and_give_back():
    first, second = bytearray(8 * MIB), bytearray(12 * MIB)  # noqa: F841
    third = bytearray(24 * MIB)
take_and_give_back()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    take_and_give_back()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", _PIECES, how], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("malloc cannot be told here: no glibc")
    return int(done.stdout)


def test_pieces_of_megabytes_are_made_of_the_same_pages_again() -> None:
    assert _faults("kept") < _faults("as it is") / 10
