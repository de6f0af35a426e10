"""Three replicas with logs on disk talk Kafka's protocol over real connections."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from ottla.env.clock import SystemClock
from ottla.env.disk import PosixDisk
from ottla.env.executor import PoolExecutor
from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.env.randomness import SeededRandom
from ottla.model.config.topic import log_config
from ottla.model.errors import ErrorCode
from ottla.raft import rpc
from ottla.raft.messages import Destination
from ottla.raft.metadata_log import MetadataLog
from ottla.raft.network_peers import NetworkPeers
from ottla.raft.node import Company, RaftNode
from ottla.raft.rpc_versions import NEWEST
from ottla.raft.settings import QuorumSettings
from ottla.raft.voters import Endpoint, ReplicaKey, VersionRange, VoterNode, VoterSet
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.wire import codec
from ottla.wire.build import build, response_type

FAST = QuorumSettings(election_timeout_ms=200, fetch_timeout_ms=500, request_timeout_ms=500, fetch_max_wait_ms=100)


class Process:
    """As much of a controller as these tests need: a port, a log on disk, a replica."""

    def __init__(self, folder: Path, i: int) -> None:
        self.id = i
        self.env = Env(SystemClock(), PosixDisk(), TcpNetwork(), PoolExecutor(), SeededRandom(Random(i)))
        self.log_dir = str(folder / str(i))
        self.env.disk.make_dirs(self.log_dir)
        self.port = 0

    async def listen(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def start(self, ports: dict[int, int]) -> None:
        endpoints = {i: Endpoint("CONTROLLER", "127.0.0.1", port) for i, port in ports.items()}
        me = VoterNode(ReplicaKey(self.id, UUID(int=100 + self.id)), (endpoints[self.id],), VersionRange(0, 1))
        self.peers = NetworkPeers(self.env, "CONTROLLER", f"raft-{self.id}", FAST.request_timeout_ms)
        others = [Destination(i, "127.0.0.1", port) for i, port in ports.items() if i != self.id]
        company = Company(me, "cluster", VoterSet.static(ports, endpoints), self.peers, others, FAST)
        self.log = MetadataLog.open(self.env, self.log_dir, replace(log_config(), segment_bytes=1 << 16))
        self.node = RaftNode(self.env, self.log.log.folder, self.log, self.id, tuple(ports), company=company)
        await self.node.start()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                head = codec.parse_request_header(frame)
                entity = codec.decode_request(head.key, head.version, memoryview(frame)[head.body :])
                if head.key == codec.API_VERSIONS:
                    answer = _versions()
                else:
                    answer = rpc.response_entity(await self.node.handle(rpc.request_of(entity)), "CONTROLLER")
                writer.write(codec.response_frame(head.correlation_id, answer))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    async def stop(self) -> None:
        await self.node.stop()
        await self.peers.close()
        self.server.close()
        for writer in self.writers:
            writer.close()
        await self.log.stop()


def _versions() -> Any:
    offered = [{"api_key": key, "min_version": 0, "max_version": newest} for key, newest in NEWEST.items()]
    values = {"error_code": ErrorCode.none, "api_keys": offered, "throttle_time": timedelta(0)}
    return build(response_type(codec.API_VERSIONS, 4), values)


async def a_leader(processes: list[Process]) -> Process:
    async with asyncio.timeout(60):
        while True:
            for process in processes:
                if process.node.is_leader and process.node.high_watermark > 0:
                    return process
            await asyncio.sleep(0.01)


async def level(processes: list[Process], offset: int) -> None:
    async with asyncio.timeout(60):
        while any(process.node.high_watermark <= offset for process in processes):
            await asyncio.sleep(0.01)


def test_three_replicas_elect_replicate_and_replace_a_leader_that_stops(tmp_path: Path) -> None:
    async def story() -> None:
        processes = [Process(tmp_path, i) for i in (1, 2, 3)]
        for process in processes:
            await process.listen()
        ports = {process.id: process.port for process in processes}
        for process in processes:
            await process.start(ports)

        leader = await a_leader(processes)
        offset = 0
        for number in range(20):
            offset = leader.node.append(build_batch([Record(None, b"%d" % number, 5)] * 3))
        await leader.node.committed(offset)
        await level(processes, offset)

        await leader.stop()
        rest = [process for process in processes if process is not leader]
        second = await a_leader(rest)
        offset = second.node.append(build_batch([Record(None, b"after", 5)]))
        await level(rest, offset)

        await leader.listen()
        await leader.start(ports)
        await level(processes, offset)
        logs = [b"".join(bytes(batch) for batch in process.log.read_from(0)) for process in processes]
        assert logs[0] == logs[1] == logs[2]
        assert second.node.epoch > 1
        for process in processes:
            await process.stop()

    asyncio.run(story())
