"""`ottla group` while the node of the coordinator, which is also the one that is asked first, is killed: every command
gives its answer."""

from __future__ import annotations

import threading

import pytest
from tests.cli.command import run_ottla
from tests.cluster.clients import a_name, create_topic, isr_is_full, produce
from tests.cluster.test_groups_in_a_cluster import Member, coordinator
from tests.waiting import until

from ottla.cli.admin import group_lag, group_offsets, groups, session
from ottla.cli.admin.session import Session
from ottla.cli.cluster_options import Addresses, Cluster
from ottla.model.names import TopicPartition
from ottla.testing.process_cluster import ProcessCluster


def test_commands_ask_on_when_the_coordinator_dies(whole: ProcessCluster) -> None:
    topic, group = create_topic(whole), a_name("group")
    produce(whole.bootstrap, topic, [b"%d" % n for n in range(30)])
    member = Member(whole, topic, group, "consumer")
    member.read(30)
    member.close()
    victim = until(lambda: coordinator(whole, group))
    bootstrap = ",".join(whole.address(node) for node in sorted(whole.ids, key=lambda node: node != victim))
    cluster = Cluster(Addresses().convert(bootstrap, None, None), 20.0)

    async def through_a_death(there: Session) -> list[object]:
        """Each asked anew by a session that knew the dead node as the first one and as the coordinator."""
        found: list[object] = []
        await groups.describe(there, [group])
        await group_lag.progress(there, [group])
        whole.kill(victim)
        found.append((await groups.describe(there, [group]))[group].exists)
        (progress,) = await group_lag.progress(there, [group])
        found.append((progress.lag, sum(position.current or 0 for position in progress.positions)))
        found.append(group in [listed.id for listed in await groups.list_groups(there)])
        await group_offsets.commit(there, group, {TopicPartition(topic, 0): 1})
        found.append((await group_offsets.committed(there, group))[TopicPartition(topic, 0)].offset)
        found.append(await groups.delete_groups(there, [group]))
        return found

    assert session.run(cluster, through_a_death) == [True, (0, 30), True, 1, {group: None}]


@pytest.mark.parametrize("command", ["describe", "lag", "members", "why"])
def test_a_command_in_the_moment_of_the_death_gives_its_answer(whole: ProcessCluster, command: str) -> None:
    topic, group = create_topic(whole), a_name("group")
    produce(whole.bootstrap, topic, [b"%d" % n for n in range(30)])
    member = Member(whole, topic, group, "classic")
    member.read(30)
    until(lambda: isr_is_full(whole, topic))
    victim = until(lambda: coordinator(whole, group))
    death = threading.Timer(0.15, whole.kill, [victim])
    try:
        death.start()
        outcome = run_ottla("group", command, group, address=whole.bootstrap)
    finally:
        death.join()
        whole.start(victim)
        member.close()
    assert outcome.returncode == 0, outcome.stderr
    assert group in outcome.stdout or topic in outcome.stdout
