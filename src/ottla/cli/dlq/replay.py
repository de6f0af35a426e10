"""`ottla dlq replay`."""

from __future__ import annotations

from contextlib import ExitStack

import click

from ottla.cli import client
from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.dlq.letters import all_letters
from ottla.cli.output import count as counted
from ottla.cli.output import may_go_on, outcome_option, print_outcome
from ottla.model.errors import OttlaError


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("--to", "target", shell_complete=topic_names, help="Write to this topic, not to where they came from.")
@click.option("--stage", help="Only those of this source or step, like sources.orders.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@outcome_option
@cluster_options
def command(topic: str, target: str | None, stage: str | None, yes: bool, output: str | None, cluster: Cluster) -> None:
    """Write dead letters to the topics that they came from, once: the next replay goes on behind them.

    Key, value and the record's own headers are as they were. All is one transaction, with the place up to which letters
    have been replayed; it is kept as the consumer group ottla-dlq-TOPIC, and with --stage as ottla-dlq-TOPIC.STAGE.
    """
    from confluent_kafka import Producer, TopicPartition

    client.check_reachable(cluster)
    group = f"ottla-dlq-{topic}"
    with client.told_in_a_line(), ExitStack() as stack:
        everyone = _Replayed(topic, group, cluster, stack)
        # before it is asked what has been replayed: whoever replays the same at the same time is fenced
        producer = client.make(Producer, client.settings(cluster, (("transactional.id", group),)))
        producer.init_transactions(cluster.timeout_s)
        letters = list(all_letters(cluster, topic, everyone.consumer, everyone.ends()))
        stages = {name for one in letters if (name := one.about.get("stage")) is not None}
        named = stages if stage is None else stages | {stage}
        own = {name: _Replayed(topic, f"{group}.{name}", cluster, stack) for name in named}
        done = {name: one.ends() for name, one in own.items()}
        chosen = [
            one
            for one in letters
            if stage in (None, one.about.get("stage"))
            and one.offset >= done.get(one.about.get("stage", ""), {}).get(one.partition, 0)
        ]
        if lost := next((one for one in chosen if target is None and "topic" not in one.about), None):
            raise OttlaError(
                f"where the letter at {lost.partition}@{lost.offset} came from is not known, since the step that "
                "rejected it has no columns _topic, _partition and _offset; --to says where to write"
            )
        if not chosen:
            none = f"There are no dead letters in {topic} that have not been replayed."
            print_outcome(output, {"topic": topic, "records": 0, "to": []}, none)
            return
        targets = [target] if target else sorted({one.about["topic"] for one in chosen})
        where = ", ".join(targets)
        may_go_on(f"Write {counted(len(chosen), 'record')} to {where}?", yes)
        producer.begin_transaction()
        for one in chosen:
            producer.produce(target or one.about["topic"], one.value, one.key, headers=one.headers)
            producer.poll(0)
        ends = {one.partition: one.offset + 1 for one in letters}
        offsets = [TopicPartition(topic, number, offset) for number, offset in ends.items()]
        group_of = (everyone if stage is None else own[stage]).consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(offsets, group_of, cluster.timeout_s)
        producer.commit_transaction(cluster.timeout_s)
    done_now = {"topic": topic, "records": len(chosen), "to": targets}
    print_outcome(output, done_now, f"Wrote {counted(len(chosen), 'record')} to {where}.")


class _Replayed:
    """Up to where letters have been replayed: all of them, or those of a stage."""

    def __init__(self, topic: str, group: str, cluster: Cluster, stack: ExitStack) -> None:
        from confluent_kafka import Consumer

        reading = (*client.READING, ("isolation.level", "read_committed"), ("group.id", group))
        self._topic, self._cluster = topic, cluster
        self.consumer = client.make(Consumer, client.settings(cluster, reading))
        stack.callback(self.consumer.close)

    def ends(self) -> dict[int, int]:
        """By partition."""
        from confluent_kafka import TopicPartition

        places = client.chosen_partitions(self.consumer, self._topic, (), self._cluster)
        asked = [TopicPartition(self._topic, one) for one in places]
        stored = self.consumer.committed(asked, self._cluster.timeout_s)
        return {one.partition: one.offset for one in stored if one.offset >= 0}
