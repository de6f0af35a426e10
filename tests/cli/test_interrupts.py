"""Ctrl-C while librdkafka calls back into Python."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from ottla.cli.interrupts import put_off


@pytest.fixture(autouse=True)
def heeds_ctrl_c() -> Iterator[None]:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupted(reached: list[str], error: Exception | None = None) -> None:
    with put_off:
        signal.raise_signal(signal.SIGINT)
        reached.append("the end of the call")
        if error is not None:
            raise error
    reached.append("what comes after it")


def test_it_comes_when_the_call_is_over() -> None:
    reached: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(reached)
    assert reached == ["the end of the call"]


def test_it_comes_once() -> None:
    with pytest.raises(KeyboardInterrupt), put_off:
        signal.raise_signal(signal.SIGINT)
    with put_off:
        pass


def test_between_calls_it_comes_at_once() -> None:
    with put_off:
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_error_of_the_call_gives_way_to_it_and_is_told_with_it() -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        interrupted([], ValueError("broken"))
    assert isinstance(raised.value.__context__, ValueError)


def test_what_somebody_else_does_with_a_signal_is_left_alone() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with put_off:
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_other_threads_are_not_interrupted_and_put_nothing_off() -> None:
    entered, left = threading.Event(), threading.Event()

    def call() -> None:
        with put_off:
            entered.set()
            left.wait()

    thread = threading.Thread(target=call)
    thread.start()
    entered.wait()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    left.set()
    thread.join()
