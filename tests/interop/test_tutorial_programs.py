"""Programs as tutorials have them keep their guarantee when a consumer or the node is killed with kill -9."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.interop.conftest import create_topic
from tests.interop.test_committed_offsets import read_all
from tests.waiting import until

from ottla.testing.process import NodeProcess, running_process

PROGRAMS = Path(__file__).parent / "programs"
COUNT = 600
EVERYTHING = {str(number) for number in range(COUNT)}
SESSION_MS = "1500"
PARTITIONS = 3
AT_LEAST, AT_MOST, COOPERATIVE = "at_least_once.py", "at_most_once.py", "cooperative-sticky"


class Program:
    """A process; `said` are the lines that it has written so far."""

    def __init__(self, name: str, *arguments: str) -> None:
        command = [sys.executable, str(PROGRAMS / name), *arguments]
        self.said: list[str] = []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.rstrip("\n"))

    @property
    def processed(self) -> list[str]:
        return [line.removeprefix("processed ") for line in self.said if line.startswith("processed ")]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()


@contextmanager
def running(name: str, *arguments: str) -> Iterator[Program]:
    program = Program(name, *arguments)
    try:
        yield program
    finally:
        program.kill()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with running_process(
        tmp_path, group_initial_rebalance_delay_ms=100, group_min_session_timeout_ms=500, offsets_topic_num_partitions=3
    ) as node:
        create_topic(node.address, "orders", PARTITIONS)
        yield node
        assert "Traceback" not in node.log(), node.log()[-4000:]


def restart(node: NodeProcess) -> None:
    node.kill()
    node.start()


def processed(programs: list[Program]) -> list[str]:
    return [value for program in programs for value in program.processed]


def finish(producer: Program) -> None:
    until(lambda: any(line.startswith("done") for line in producer.said), "the producer ends")
    assert producer.said[-1] == f"done {COUNT}", producer.said[-3:]


def test_an_idempotent_producer_writes_each_record_once(node: NodeProcess) -> None:
    with running("producer.py", node.address, "orders", str(COUNT)) as producer:
        until(lambda: len(producer.said) > COUNT // 4, "some are delivered")
        restart(node)
        until(lambda: len(producer.said) > COUNT // 2, "more are delivered")
        restart(node)
        finish(producer)

    values = [value.decode() for value in read_all(node.address, "readers", "orders", COUNT)]

    assert Counter(values) == Counter(EVERYTHING)
    for key in range(7):  # each key has a partition, and there its records stay in order
        of_key = [int(value) for value in values if int(value) % 7 == key]
        assert of_key == sorted(of_key)


@pytest.mark.parametrize("assignor", ["range", pytest.param(COOPERATIVE, marks=pytest.mark.slow)])
def test_at_least_once_misses_nothing(node: NodeProcess, assignor: str) -> None:
    arguments = (AT_LEAST, node.address, "orders", "billing", SESSION_MS, assignor)
    with ExitStack() as stack:
        producer = stack.enter_context(running("producer.py", node.address, "orders", str(COUNT)))
        first, second = (stack.enter_context(running(*arguments)) for _ in range(2))
        programs = [first, second]
        until(lambda: all(program.processed for program in programs), "both have something to do")
        first.kill()
        programs.append(stack.enter_context(running(*arguments)))
        until(lambda: len(set(processed(programs))) > COUNT // 3, "it goes on")
        restart(node)
        finish(producer)
        until(lambda: set(processed(programs)) == EVERYTHING, "all are processed")
        repeated = Counter(processed(programs)) - Counter(EVERYTHING)

    # What had been processed and was not committed, once for each crash, partition and consumer.
    assert repeated.total() <= 4 * PARTITIONS * len(programs)


def test_at_most_once_repeats_nothing(node: NodeProcess) -> None:
    arguments = (AT_MOST, node.address, "orders", "billing", SESSION_MS)
    with ExitStack() as stack:
        producer = stack.enter_context(running("producer.py", node.address, "orders", str(COUNT)))
        first = stack.enter_context(running(*arguments))
        until(lambda: len(first.processed) > COUNT // 5, "it has begun")
        first.kill()
        programs = [first, stack.enter_context(running(*arguments))]
        until(lambda: bool(programs[1].processed), "it goes on")
        restart(node)
        finish(producer)
        until(lambda: str(COUNT - 1) in processed(programs), "the end is reached")
        until(lambda: len(set(processed(programs))) >= COUNT - 2 * PARTITIONS, "hardly any are missed")
        values = Counter(processed(programs))

    assert not values - Counter(EVERYTHING)


@pytest.mark.slow
def test_two_groups_each_have_everything(node: NodeProcess) -> None:
    with ExitStack() as stack:
        producer = stack.enter_context(running("producer.py", node.address, "orders", str(COUNT)))
        groups = {
            name: [stack.enter_context(running(AT_LEAST, node.address, "orders", name, SESSION_MS, "range"))]
            for name in ("billing", "shipping")
        }
        until(lambda: all(programs[0].processed for programs in groups.values()), "both have begun")
        groups["billing"][0].kill()
        groups["billing"].append(
            stack.enter_context(running(AT_LEAST, node.address, "orders", "billing", SESSION_MS, "range"))
        )
        restart(node)
        finish(producer)
        until(
            lambda: all(set(processed(programs)) == EVERYTHING for programs in groups.values()), "all are processed",
        )  # fmt: skip

        assert len(groups["shipping"]) == 1  # what happened to the other group is nothing to this one
