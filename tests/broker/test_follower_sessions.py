"""What a leader keeps of its followers' fetches, with real nodes: nobody is forgotten, nothing is kept for ever."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from tests.broker.apis.asking import FETCH, ask
from tests.broker.test_replication import BROKERS, TOPIC, Story
from tests.log.given import batch

from ottla.broker.follower_watch import FollowerWatch
from ottla.model.errors import ErrorCode
from ottla.testing.cluster import running_cluster
from ottla.wire.build import build, request_type
from ottla.wire.client import Connection


def test_a_partition_for_which_an_answer_had_no_room_is_in_the_next(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3, BROKERS, replica_fetch_response_max_bytes=1) as cluster:
        story = Story(cluster, partitions=6, min_insync_replicas="2")
        node = story.leader()
        partitions = [node.replicas.by_name[TOPIC, number] for number in range(6)]
        led = [number for number in range(6) if partitions[number].is_leader]
        assert len(led) > 1

        def all_rest() -> bool:
            watching = [watcher for number in led for watcher in partitions[number].watchers]
            return len(watching) == 2 * len(led) and not any(cast("FollowerWatch", each).active for each in watching)

        async def produce() -> Any:
            port = cluster.ports[node.config.node_id]
            async with await Connection.open(node.env, "127.0.0.1", port) as connection:
                values = {
                    "transactional_id": None,
                    "acks": -1,
                    "timeout": timedelta(seconds=15),
                    "topic_data": [
                        {"name": TOPIC, "partition_data": [{"index": number, "records": batch()} for number in led]}
                    ],
                }
                return await connection.call(build(request_type(0, 12), values))

        cluster.until(all_rest)
        answer = cluster.run(produce())
        codes = [row.error_code for row in answer.responses[0].partition_responses]
        assert codes == [ErrorCode.none] * len(led)


def test_followers_without_a_session_leave_nothing_behind(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3, BROKERS) as cluster:
        story = Story(cluster, min_insync_replicas="3")
        story.write(b"one")
        leader, follower = story.leader(), story.followers()[0].config.node_id
        partition = story.led_by(leader)
        row = {
            "partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1,
            "log_start_offset": 0, "partition_max_bytes": 1 << 20,
        }  # fmt: skip
        values = {
            "replica_id": follower, "max_wait": timedelta(0), "min_bytes": 1, "max_bytes": 1 << 20,
            "isolation_level": 0, "session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": "",
            "topics": [{"topic": TOPIC, "partitions": [row]}],
        }  # fmt: skip
        cluster.until(lambda: len(partition.watchers) == 2)
        for _ in range(3):
            answer = ask(f"127.0.0.1:{cluster.ports[leader.config.node_id]}", FETCH, 12, **values)
            assert answer.responses[0].partitions[0].records
        assert cluster.on_loop(lambda: len(partition.watchers)) == 2


def test_a_follower_that_is_started_again_leaves_nothing_behind_of_its_former_life(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3, BROKERS) as cluster:
        story = Story(cluster, min_insync_replicas="2")
        leader = story.leader()
        partition = story.led_by(leader)
        number = story.followers()[0].config.node_id
        for _ in range(2):
            cluster.stop(number)
            cluster.start(number)
            story.until_in_sync(1, 2, 3)
        assert story.leader() is leader
        replicas = [cast("FollowerWatch", each).replica for each in cluster.on_loop(lambda: list(partition.watchers))]
        assert sorted(replicas) == sorted(node.config.node_id for node in story.followers())
