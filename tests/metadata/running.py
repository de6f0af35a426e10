"""A controller over a log that is its quorum's only one, with the feed behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from tests.metadata import given

from ottla.env.ports import Env
from ottla.metadata.controller.features import bootstrap_records
from ottla.metadata.controller.requests import Request
from ottla.metadata.delta import Publisher
from ottla.metadata.feed import MetadataFeed
from ottla.metadata.image import MetadataImage
from ottla.metadata.local_controller import LocalController
from ottla.raft.log import RaftLog
from ottla.raft.node import RaftNode

R = TypeVar("R")


@dataclass
class Running:
    raft: RaftNode
    feed: MetadataFeed
    controller: LocalController

    @classmethod
    async def start(cls, env: Env, folder: str, log: RaftLog, seed: int = 1) -> Running:
        raft = RaftNode(env, folder, log, 1, (1,))
        feed = MetadataFeed(env, raft)
        controller = LocalController(env, raft, feed, given.settings(seed), bootstrap_records())
        await feed.start()
        controller.start()
        await raft.start()
        await controller.until_active()
        await feed.reached(log.end_offset - 1)
        return cls(raft, feed, controller)

    @property
    def image(self) -> MetadataImage:
        return self.feed.image

    async def submit(self, request: Request[R]) -> R:
        return await self.controller.submit(request)

    async def subscribe(self, publisher: Publisher) -> None:
        await self.feed.subscribe(publisher)

    async def stop(self) -> None:
        await self.raft.stop()
        await self.feed.stop()
