from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.broker.apis.asking import INIT_PRODUCER_ID, ask
from tests.waiting import PATIENCE_S

from ottla.metadata.controller.producer_ids import BLOCK_SIZE
from ottla.model.errors import ErrorCode
from ottla.testing.node import RunningNode, running_node

MINUTE = timedelta(minutes=1)


def init(address: str, transactional_id: str | None = None, **values: Any) -> Any:
    given = {"transactional_id": transactional_id, "transaction_timeout": MINUTE}
    return ask(address, INIT_PRODUCER_ID, 5, **given | values)


def test_every_producer_gets_an_id_of_its_own(address: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: init(address), range(30)))

    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(ErrorCode.none, 0)}
    assert len({answer.producer_id for answer in answers}) == 30


def test_a_producer_that_had_an_id_gets_a_new_one(address: str) -> None:
    first = init(address)

    again = init(address, producer_id=first.producer_id, producer_epoch=first.producer_epoch)

    assert (again.error_code, again.producer_epoch) == (ErrorCode.none, 0)
    assert again.producer_id != first.producer_id


@pytest.mark.parametrize("half", [{"producer_id": 5}, {"producer_epoch": 5}])
def test_an_id_without_its_epoch_is_refused(address: str, half: dict[str, Any]) -> None:
    answer = init(address, **half)

    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.invalid_request, -1, -1)


def test_ids_go_on_over_blocks_and_over_a_restart(tmp_path: Path) -> None:
    def take(running: RunningNode, count: int) -> list[int]:
        ids = running.node.producer_ids

        async def all_of_them() -> list[int]:
            taken: list[int] = []
            while len(taken) < count:
                producer_id = ids.take()
                if producer_id is None:
                    await ids.wait()
                else:
                    taken.append(producer_id)
            return taken

        return running.wait_for(all_of_them())

    with running_node(tmp_path) as running:
        before = take(running, 2 * BLOCK_SIZE + 10)
    with running_node(tmp_path) as running:
        after = take(running, 10)

    assert before == list(range(2 * BLOCK_SIZE + 10))
    assert min(after) > max(before)  # what was left of a block is never given


def test_a_transactional_id_and_its_time_limit_must_make_sense(address: str) -> None:
    assert init(address, "").error_code is ErrorCode.invalid_request
    for timeout in (timedelta(0), timedelta(minutes=15, milliseconds=1)):
        answer = init(address, "transfer", transaction_timeout=timeout)
        assert answer.error_code is ErrorCode.invalid_transaction_timeout


def test_librdkafka_produces_idempotently(address: str) -> None:
    outcomes: list[object] = []
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for _ in range(10):
        producer.produce("idempotent", b"value", on_delivery=lambda error, _: outcomes.append(error))

    assert producer.flush(PATIENCE_S) == 0
    assert outcomes == [None] * 10
