"""Markers that wait for another broker, when this node does not coordinate their transaction any more."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from ottla.broker.txn_markers import TxnMarkers
from ottla.coordinator.shard import State
from ottla.coordinator.txn.transaction import Marker, ProducerEpoch
from ottla.env.timers import TimerWheel
from ottla.model.names import TopicPartition


class SlowPeers:
    """Broker 2, which answers when it is told to."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.asked: list[int] = []

    def is_reachable(self, broker_id: int) -> bool:
        return True

    async def call(self, broker_id: int, api: int, request: dict[str, Any]) -> Any:
        self.asked += [row["producer_id"] for row in request["markers"]]
        await self.may_answer.wait()
        return SimpleNamespace(markers=[])

    async def stop(self) -> None:
        pass


def test_they_are_given_up_and_not_counted(monkeypatch: Any) -> None:
    async def story() -> None:
        peers = SlowPeers()
        monkeypatch.setattr("ottla.broker.txn_markers.PeerBrokers", lambda *_: peers)
        loop = asyncio.get_running_loop()
        topic = SimpleNamespace(partitions={0: SimpleNamespace(leader=2)})
        node = SimpleNamespace(
            env=SimpleNamespace(loop=loop), config=SimpleNamespace(node_id=1), timers=TimerWheel(loop),
            image=SimpleNamespace(topic=lambda name: topic),
        )  # fmt: skip
        markers = TxnMarkers(cast(Any, node))
        shards = [SimpleNamespace(state=State.ACTIVE) for _ in range(2)]
        for producer_id, shard in enumerate(shards):
            marker = Marker(ProducerEpoch(producer_id, 1), True, 0)
            markers.send(cast(Any, shard), f"tx-{producer_id}", marker, [TopicPartition("orders", 0)])
            await asyncio.sleep(0)
        assert (peers.asked, markers.unfinished) == ([0], 2)  # the second waits for the answer to the first
        shards[1].state = State.CLOSED
        called: list[str] = []
        assert markers.when_written("tx-1", lambda: called.append("its turn"), 60_000)

        peers.may_answer.set()
        while markers.unfinished == 2:
            await asyncio.sleep(0)

        assert (peers.asked, markers.unfinished, called) == ([0], 1, ["its turn"])
        await markers.stop()

    asyncio.run(asyncio.wait_for(story(), 60))
