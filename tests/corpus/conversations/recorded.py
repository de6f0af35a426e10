"""What Apache Kafka said in each conversation, and the world in which all are held."""

from __future__ import annotations

import json
import lzma
from typing import Any, Final
from uuid import UUID

from tests.broker.apis.committing import await_coordinator
from tests.corpus.conversations import administration, committed_offsets, members, modern_members, static_members
from tests.corpus.conversations.registry import CONVERSATIONS
from tests.corpus.conversations.talk import Line, Talk
from tests.corpus.conversations.voices import ORDERS, OTHER
from tests.corpus.recording import FOLDER
from tests.corpus.scenarios.scenario import SOON
from tests.corpus.world import CREATE_TOPICS
from tests.interop.raw import METADATA, Raw
from tests.waiting import attempts

MODULES: Final = (members, static_members, committed_offsets, administration, modern_members)
# What a server is started with, with `_` for `.`: Apache Kafka and Ottla alike.
SETTINGS: Final[dict[str, Any]] = {
    "auto_create_topics_enable": False,
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 300,
    "group_max_session_timeout_ms": 60_000,
    "group_max_size": 4,
    "group_consumer_max_size": 4,
    "offset_metadata_max_bytes": 100,
    "offsets_topic_num_partitions": 3,
}
_TOPICS: Final = {ORDERS: 3, OTHER: 1}
_FILE: Final = FOLDER / "conversations.json.xz"


def prepare(port: int) -> dict[str, UUID]:
    """Makes the topics, and waits for the coordinator. Gives the topics' ids."""
    with Raw(port) as raw:
        topics = [
            {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
            for name, count in _TOPICS.items()
        ]
        answer = raw.ask(CREATE_TOPICS, 7, topics=topics, timeout=SOON, validate_only=False)
        assert not [topic for topic in answer.topics if topic.error_code], answer
        for group in "abcdefgh":  # one in each partition at the least
            await_coordinator(f"127.0.0.1:{port}", group)
        for _ in attempts(_TOPICS):
            told = raw.ask(
                METADATA, 12, topics=[{"name": name, "topic_id": None} for name in _TOPICS],
                allow_auto_topic_creation=False, include_topic_authorized_operations=False,
            )  # fmt: skip
            if not any(topic.error_code for topic in told.topics):
                return {topic.name: topic.topic_id for topic in told.topics}
        raise AssertionError


def hold(port: int, name: str, topic_ids: dict[str, UUID], time: int = 1) -> list[Line]:
    """The first time, or another: groups have names of their own then."""
    with Talk(port, f"{name}, {time}", topic_ids) as talk:
        CONVERSATIONS[name](talk)
        return talk.lines


def store(lines: dict[str, list[Line]]) -> None:
    FOLDER.mkdir(exist_ok=True)
    _FILE.write_bytes(lzma.compress(json.dumps(lines, ensure_ascii=False).encode(), preset=9))


def load() -> dict[str, list[Line]]:
    data = json.loads(lzma.decompress(_FILE.read_bytes()))
    return {name: [(who, answer) for who, answer in lines] for name, lines in data.items()}
