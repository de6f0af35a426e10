"""Questions to coordinators on other brokers go together, as many as there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.txn_questions import RemoteQuestions
from ottla.coordinator.txn.transaction import ProducerEpoch
from ottla.model.errors import ErrorCode, OttlaError
from ottla.model.names import TopicPartition

OUT = TopicPartition("out", 0)
NONE = ErrorCode.none


class Peers:
    """Another broker; it answers when it is told to."""

    def __init__(self) -> None:
        self.requests: list[list[dict[str, Any]]] = []
        self.answers: list[asyncio.Future[Any]] = []

    async def call(self, broker_id: int, key: int, values: dict[str, Any]) -> Any:
        self.requests.append(values["transactions"])
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        return await answer

    @property
    def asked(self) -> list[list[str]]:
        return [[row["transactional_id"] for row in request] for request in self.requests]

    def say(self, code: ErrorCode = NONE, top: ErrorCode = NONE) -> None:
        rows = [
            SimpleNamespace(
                transactional_id=row["transactional_id"],
                topic_results=[
                    SimpleNamespace(
                        name=topic["name"],
                        results_by_partition=[
                            SimpleNamespace(partition_index=number, partition_error_code=code)
                            for number in topic["partitions"]
                        ],
                    )
                    for topic in row["topics"]
                ],
            )
            for row in self.requests[-1]
        ]
        self.answers[-1].set_result(SimpleNamespace(error_code=top, results_by_transaction=rows))


def asking(test: Callable[[RemoteQuestions, Peers], Any]) -> None:
    async def run() -> None:
        peers = Peers()
        await test(RemoteQuestions(SimpleNamespace(loop=asyncio.get_running_loop()), peers), peers)  # type: ignore[arg-type]

    asyncio.run(run())


async def ask(questions: RemoteQuestions, name: str) -> asyncio.Task[dict[TopicPartition, ErrorCode]]:
    task = asyncio.ensure_future(questions.ask(2, name, ProducerEpoch(7, 0), [OUT], adds=False))
    for _ in range(3):
        await asyncio.sleep(0)
    return task


def test_what_comes_up_while_one_is_under_way_goes_in_the_next_request() -> None:
    async def story(questions: RemoteQuestions, peers: Peers) -> None:
        tasks = [await ask(questions, name) for name in ("a", "b", "c", "d")]
        assert peers.asked == [["a"]]
        peers.say()
        assert await tasks[0] == {OUT: NONE}
        await asyncio.sleep(0)
        assert peers.asked == [["a"], ["b", "c", "d"]]
        peers.say(ErrorCode.transaction_abortable)
        assert [await task for task in tasks[1:]] == [{OUT: ErrorCode.transaction_abortable}] * 3

    asking(story)


def test_an_id_is_asked_about_once_in_a_request() -> None:
    async def story(questions: RemoteQuestions, peers: Peers) -> None:
        tasks = [await ask(questions, name) for name in ("a", "b", "b", "c")]
        for _ in range(3):
            peers.say()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert peers.asked == [["a"], ["b"], ["b", "c"]]
        assert [await task for task in tasks] == [{OUT: NONE}] * 4

    asking(story)


@pytest.mark.parametrize(
    ("told", "heard"),
    [
        (ErrorCode.cluster_authorization_failed, ErrorCode.invalid_txn_state),
        (ErrorCode.unknown_server_error, ErrorCode.unknown_server_error),
        (None, ErrorCode.network_exception),
    ],
)
def test_a_request_that_fails_fails_for_all_in_it(told: ErrorCode | None, heard: ErrorCode) -> None:
    async def story(questions: RemoteQuestions, peers: Peers) -> None:
        task = await ask(questions, "a")
        if told is None:
            peers.answers[0].set_exception(OttlaError("gone"))
        else:
            peers.say(top=told)
        assert await task == {OUT: heard}

    asking(story)
