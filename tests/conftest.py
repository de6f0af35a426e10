"""What all tests start from."""

import os
import re
import signal

import pytest
from hypothesis import HealthCheck, settings

from ottla.testing import apache_kafka

# A shell starts what runs in its background without Ctrl-C, and so do its children: tests that press it need it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Nodes of workers that run side by side (pytest-xdist) do not take each other's ports.
if worker := re.search(r"\d+", os.environ.get("PYTEST_XDIST_WORKER", "")):
    apache_kafka.PORTS = apache_kafka.PORTS[int(worker[0]) % 4 :: 4]

# A slow machine is no defect. The ordinary run tries the same examples each time; the long one looks for others.
settings.register_profile("same", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("others", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("same")

# Files that take long are begun first, so that they are not what is left at the end when tests run side by side.
LONG = (
    "tests/why",
    "tests/kill",
    "tests/docs",
    "tests/interop",
    "tests/cli",
    "tests/broker",
    "tests/sim",
    "tests/corpus",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: next((at for at, name in enumerate(LONG) if item.nodeid.startswith(name)), len(LONG)))
