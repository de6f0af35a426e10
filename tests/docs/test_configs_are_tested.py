"""Every config that works has a test in which its value changes what happens: this is the list, and it is checked.

A config that nothing reads yet stands in model/config/tables/to_come.py, one about the JVM is marked in its table.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from tests.docs.test_generated import EVERY_CONFIG
from tools.generate_config_reference import names_read

from ottla.model.config import TOPIC_CONFIGS

ROOT = Path(__file__).resolve().parents[2]

# By the test, whose file is below tests/: what it shows.
TESTED = {
    "log/test_retention.py::test_only_what_is_there_goes": ("local.retention.ms",),
    "log/test_retention.py::test_by_size_too": ("local.retention.bytes",),
    "model/test_config_values.py::test_brokers_say_what_is_kept_locally_by_default": (
        "log.local.retention.ms", "log.local.retention.bytes",
    ),
    "model/test_config_values.py::test_without_a_remote_tier_no_topic_can_use_it": (
        "remote.log.storage.system.enable", "remote.storage.enable",
    ),
    "model/test_config_values.py::test_what_is_kept_on_local_disk": ("remote.log.copy.disable",),
    "metadata/test_configs.py::test_the_remote_tier_of_a_topic_is_turned_off_only_with_what_is_there": (
        "remote.log.delete.on.disable",
    ),
    "tier/test_tier_of_a_cluster.py::test_if_it_is_wanted_it_leaves_all_that_is_in_the_tier_to_the_tier": (
        "follower.fetch.last.tiered.offset.enable",
    ),
    "tier/test_tier_configs.py::test_where_the_store_is": ("remote.log.storage.manager.impl.prefix",),
    "tier/test_tier_configs.py::test_how_the_metadata_topic_is_created": ("remote.log.metadata.manager.impl.prefix",),
    "tier/test_tier_configs.py::test_so_many_are_worked_on_at_a_time": (
        "remote.log.manager.copier.thread.pool.size", "remote.log.manager.expiration.thread.pool.size",
    ),
    "tier/test_tier_configs.py::test_reads_are_bounded": (
        "ottla.remote.cache.bytes", "remote.log.reader.threads", "remote.log.reader.max.pending.tasks",
    ),
    "tier/test_pace.py::test_too_much_that_waits_is_copied_at_once": ("ottla.remote.copy.backlog.bytes",),
    "tier/test_tier_configs.py::test_rounds_and_rests_are_as_configured": (
        "remote.log.manager.task.interval.ms", "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.backoff.max.ms", "remote.log.manager.task.retry.jitter",
    ),
    "tier/test_bad_stores.py::test_what_takes_too_long_is_there_for_who_asks_again": ("remote.fetch.max.wait.ms",),
    "tier/test_bad_stores.py::test_a_search_by_time_ends_in_time": ("remote.list.offsets.request.timeout.ms",),
    "tier/test_quota.py::test_what_went_in_the_last_windows_counts": (
        "remote.log.manager.copy.max.bytes.per.second", "remote.log.manager.fetch.max.bytes.per.second",
    ),
    "tier/test_quota.py::test_more_or_longer_windows_even_it_out": (
        "remote.log.manager.copy.quota.window.num", "remote.log.manager.copy.quota.window.size.seconds",
        "remote.log.manager.fetch.quota.window.num", "remote.log.manager.fetch.quota.window.size.seconds",
    ),
    "log/cleaning/test_limits.py::test_memory_and_speed_are_shared_by_as_many_as_may_clean_at_once": (
        "log.cleaner.dedupe.buffer.size",
    ),
    "log/cleaning/test_limits.py::test_the_map_takes_no_more_than_its_memory_and_is_no_fuller_than_allowed": (
        "log.cleaner.io.buffer.load.factor",
    ),
    "log/cleaning/test_limits.py::test_reading_and_writing_are_no_faster_than_they_may_be": (
        "log.cleaner.io.max.bytes.per.second",
    ),
    "log/cleaning/test_limits.py::test_pieces_are_as_large_as_the_buffer": ("log.cleaner.io.buffer.size",),
    "log/cleaning/test_limits.py::test_so_many_logs_are_cleaned_at_a_time": ("log.cleaner.threads",),
    "log/cleaning/test_interplay.py::test_the_cleaner_looks_by_itself": (
        "log.cleaner.enable", "log.cleaner.backoff.ms",
    ),
    "log/cleaning/test_cleaning.py::test_a_tombstone_stays_for_its_time_and_then_goes": ("delete.retention.ms",),
    "log/cleaning/test_planning.py::test_cleanable_offsets": ("min.compaction.lag.ms",),
    "log/cleaning/test_planning.py::test_when_a_log_is_due": ("min.cleanable.dirty.ratio",),
    "broker/apis/test_log_dirs.py::test_moves_are_no_faster_than_they_may_be": (
        "replica.alter.log.dirs.io.max.bytes.per.second",
    ),
    "broker/test_replication.py::test_who_hangs_leaves_the_in_sync_replicas_and_comes_back": (
        "replica.lag.time.max.ms",
    ),
    "broker/test_replication.py::test_a_consumer_is_sent_to_the_replica_in_its_rack": ("replica.selector.class",),
    "broker/test_replication_configs.py::test_what_is_asked_of_leaders_is_as_configured": (
        "replica.fetch.max.bytes", "replica.fetch.wait.max.ms", "replica.fetch.min.bytes",
        "replica.fetch.response.max.bytes", "replica.fetch.backoff.ms", "replica.socket.timeout.ms",
    ),
    "broker/test_replication_configs.py::test_partitions_of_a_leader_are_dealt_to_several_fetchers": (
        "num.replica.fetchers",
    ),
    "broker/test_replication_configs.py::test_leaders_that_topics_name_hold_back_followers": (
        "leader.replication.throttled.rate", "leader.replication.throttled.replicas",
    ),
    "broker/test_replication_configs.py::test_followers_hold_back_what_topics_name": (
        "follower.replication.throttled.rate", "follower.replication.throttled.replicas",
    ),
    "broker/test_lifecycle.py::test_heartbeats_come_in_their_interval": ("broker.heartbeat.interval.ms",),
    "broker/test_lifecycle.py::test_a_broker_that_cannot_tell_of_a_failed_directory_stops": (
        "log.dir.failure.timeout.ms",
    ),
    "broker/test_leaving.py::test_leaders_are_handed_over_if_that_is_wanted": ("controlled.shutdown.enable",),
    "broker/test_controller_channel.py::test_a_controller_that_hangs_is_asked_again_after_a_while": (
        "controller.socket.timeout.ms",
    ),
    "broker/test_controller_channel.py::test_a_connection_that_does_not_come_to_be_is_given_up": (
        "socket.connection.setup.timeout.ms",
    ),
    "broker/apis/test_metadata.py::test_clients_are_told_the_address_of_the_listener_they_came_in_on": (
        "listeners", "advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name",
    ),
    "broker/apis/test_metadata.py::test_nothing_is_created_if_client_or_broker_do_not_want_it": (
        "auto.create.topics.enable",
    ),
    "broker/apis/test_metadata.py::test_asking_for_a_topic_creates_it_and_says_unknown_until_it_is_there": (
        "num.partitions",
    ),
    "broker/apis/test_create_and_delete_topics.py::test_deletion_can_be_disabled": ("delete.topic.enable",),
    "broker/apis/test_compression_type.py::test_a_batch_is_stored_with_the_codec_of_its_topic": ("compression.type",),
    "broker/apis/test_compression_type.py::test_the_level_makes_a_difference": (
        "compression.gzip.level", "compression.lz4.level", "compression.zstd.level",
    ),
    "broker/apis/test_describe_topic_partitions.py::test_the_broker_has_a_limit_of_its_own": (
        "max.request.partition.size.limit",
    ),
    "broker/apis/test_find_coordinator.py::test_without_enough_brokers_there_is_no_topic_and_no_coordinator": (
        "offsets.topic.replication.factor",
    ),
    "broker/apis/test_classic_groups.py::test_a_group_that_is_full": ("group.max.size",),
    "broker/test_group_configs.py::test_sessions_are_as_long_as_the_broker_allows": (
        "group.min.session.timeout.ms", "group.max.session.timeout.ms",
    ),
    "broker/test_group_configs.py::test_offset_metadata_max_bytes_bounds_what_is_kept_with_an_offset": (
        "offset.metadata.max.bytes",
    ),
    "broker/test_transaction_configs.py::test_the_topic_is_made_as_the_configs_say": (
        "transaction.state.log.num.partitions", "transaction.state.log.segment.bytes",
        "transaction.state.log.replication.factor", "transaction.state.log.min.isr",
    ),
    "broker/test_transaction_configs.py::test_what_takes_too_long_is_aborted": (
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    ),
    "broker/test_transaction_configs.py::test_ids_are_forgotten": (
        "transactional.id.expiration.ms", "transaction.remove.expired.transaction.cleanup.interval.ms",
    ),
    "broker/test_transaction_configs.py::test_verification_can_be_left_out": (
        "transaction.partition.verification.enable",
    ),
    "broker/test_transaction_configs.py::test_how_long_a_broker_asks_by_itself": (
        "add.partitions.to.txn.retry.backoff.ms", "add.partitions.to.txn.retry.backoff.max.ms",
    ),
    "broker/test_group_configs.py::test_the_offsets_topic_is_made_as_the_configs_say": (
        "offsets.topic.num.partitions", "offsets.topic.segment.bytes",
    ),
    "broker/test_group_configs.py::test_offsets_commit_timeout_ms_is_how_long_a_reply_waits_for_its_commit": (
        "offsets.commit.timeout.ms",
    ),
    "broker/test_group_configs.py::test_the_first_member_waits_for_others": ("group.initial.rebalance.delay.ms",),
    "broker/test_consumer_group_configs.py::test_members_are_told_how_often_to_send_heartbeats": (
        "group.consumer.heartbeat.interval.ms", "consumer.heartbeat.interval.ms",
    ),
    "broker/test_consumer_group_configs.py::test_who_is_silent_for_the_session_timeout_is_no_member_any_more": (
        "group.consumer.session.timeout.ms", "consumer.session.timeout.ms",
    ),
    "broker/test_consumer_group_configs.py::test_assignments_are_worked_out_no_more_often_than_the_interval_says": (
        "group.consumer.assignment.interval.ms", "consumer.assignment.interval.ms",
    ),
    "broker/test_consumer_group_configs.py::test_a_group_may_set_what_lies_within_the_brokers_bounds": (
        "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms",
        "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms",
    ),
    "broker/test_consumer_group_configs.py::test_a_consumer_group_has_so_many_members_and_no_more": (
        "group.consumer.max.size",
    ),
    "broker/test_consumer_group_configs.py::test_members_choose_among_the_brokers_assignors": (
        "group.consumer.assignors",
    ),
    "broker/test_consumer_group_configs.py::test_the_consumer_protocol_can_be_left_out": (
        "group.coordinator.rebalance.protocols",
    ),
    "broker/test_consumer_group_configs.py::test_the_migration_policy_says_whether_a_classic_group_takes_consumers": (
        "group.consumer.migration.policy",
    ),
    "broker/test_consumer_group_configs.py::test_patterns_are_matched_again_after_the_refresh_interval": (
        "group.consumer.regex.refresh.interval.ms",
    ),
    "coordinator/group/test_offsets.py::test_many_take_several_batches_and_turns": (
        "offsets.retention.minutes", "offsets.retention.check.interval.ms",
    ),
    "broker/telemetry/test_clients_that_push.py::test_subscriptions_come_from_configs_and_go_with_them": (
        "metrics", "interval.ms", "match",
    ),
    "broker/test_configs_at_work.py::test_telemetry_max_bytes_bounds_what_a_client_pushes": ("telemetry.max.bytes",),
    "broker/test_metrics.py::test_a_port_that_is_taken_is_told_with_what_to_do": ("ottla.metrics.listener",),
    "cli/test_watching.py::test_the_form_of_the_log_can_be_chosen_in_other_ways": ("ottla.log.format",),
    "cli/test_storage.py::test_a_node_that_takes_too_long_to_start_gives_up": ("server.max.startup.time.ms",),
    "broker/test_connection_limits.py::test_who_is_idle_is_closed_and_who_waits_for_an_answer_is_not": (
        "connections.max.idle.ms",
    ),
    "broker/test_connection_limits.py::test_connections_that_come_too_fast_wait": ("max.connection.creation.rate",),
    "broker/test_connection_limits.py::test_the_next_one_waits_until_one_goes": ("max.connections",),
    "broker/test_connection_limits.py::test_an_address_has_its_share": (
        "max.connections.per.ip", "max.connections.per.ip.overrides",
    ),
    "broker/test_connection_limits.py::test_no_more_requests_run_at_once_than_may": ("queued.max.requests",),
    "broker/test_cordoned_dirs.py::test_a_dir_is_cordoned_by_a_file_too_and_after_a_restart": ("cordoned.log.dirs",),
    "broker/test_log_dirs.py::test_a_full_disk_costs_its_partitions_and_nothing_that_was_acknowledged": ("log.dirs",),
    "broker/test_configs_at_work.py::test_broker_rack_is_told_to_clients": ("broker.rack",),
    "broker/test_controller_settings.py::test_a_broker_says_which_machine_it_runs_on": ("ottla.host",),
    "broker/test_controller_settings.py::test_what_the_controller_does_by_itself_has_its_configs": (
        "broker.session.timeout.ms", "unclean.leader.election.interval.ms", "auto.leader.rebalance.enable",
        "leader.imbalance.check.interval.seconds",
    ),
    "broker/test_configs_at_work.py::test_default_replication_factor_is_that_of_topics_that_do_not_say": (
        "default.replication.factor",
    ),
    "broker/test_configs_at_work.py::test_metadata_log_dir_is_where_the_metadata_lie": ("metadata.log.dir",),
    "broker/test_configs_at_work.py::test_segments_of_the_metadata_log": (
        "internal.metadata.log.segment.bytes", "metadata.log.segment.ms",
    ),
    "broker/test_configs_at_work.py::test_metadata_log_segment_bytes_is_the_size_of_its_segments": (
        "metadata.log.segment.bytes",
    ),
    "broker/test_metadata_snapshots.py::test_every_node_takes_them_and_trims_its_log": (
        "metadata.log.max.record.bytes.between.snapshots", "metadata.max.retention.bytes",
        "internal.metadata.delete.delay.millis",
    ),
    "broker/test_metadata_snapshots.py::test_after_a_while_one_is_taken_of_little": (
        "metadata.log.max.snapshot.interval.ms",
    ),
    "raft/test_quorum_config.py::test_who_names_servers_and_no_voters_learns_of_them": (
        "controller.quorum.bootstrap.servers",
    ),
    "broker/test_metadata_snapshots.py::test_old_ones_go_by_their_age_too": ("metadata.max.retention.ms",),
    "raft/test_quorum_config.py::test_every_setting_of_the_quorum_comes_from_its_config": (
        "controller.quorum.election.timeout.ms", "controller.quorum.fetch.timeout.ms",
        "controller.quorum.election.backoff.max.ms", "controller.quorum.request.timeout.ms",
        "controller.quorum.retry.backoff.ms", "controller.quorum.fetch.max.bytes",
        "controller.quorum.fetch.snapshot.max.bytes", "controller.quorum.auto.join.enable",
    ),
    "broker/test_quorum_of_nodes.py::test_a_broker_that_finds_no_quorum_gives_up_and_says_what_to_look_at": (
        "initial.broker.registration.timeout.ms", "controller.quorum.voters",
    ),
    "broker/test_configs_at_work.py::test_a_change_of_metadata_must_fit_into_a_batch": (
        "internal.metadata.max.batch.size.in.bytes",
    ),
    "broker/test_configs_at_work.py::test_other_units_for_what_topics_get": (
        "log.retention.minutes", "log.retention.hours", "log.roll.hours", "log.roll.jitter.hours",
        "log.flush.scheduler.interval.ms",
    ),
    "broker/test_configs_at_work.py::test_producers_are_forgotten_at_the_next_look": (
        "producer.id.expiration.ms", "producer.id.expiration.check.interval.ms",
    ),
    "broker/test_configs_at_work.py::test_transaction_max_timeout_ms_bounds_what_producers_ask_for": (
        "transaction.max.timeout.ms",
    ),
    "broker/test_configs_at_work.py::test_a_request_beyond_socket_request_max_bytes_closes_its_connection": (
        "socket.request.max.bytes",
    ),
    "broker/test_configs_at_work.py::test_queued_max_request_bytes_is_the_memory_for_requests": (
        "queued.max.request.bytes",
    ),
    "broker/test_configs_at_work.py::test_buffers_of_connections_have_the_sizes_asked_for": (
        "socket.send.buffer.bytes", "socket.receive.buffer.bytes",
    ),
    "broker/test_configs_at_work.py::test_socket_listen_backlog_size_is_how_many_may_wait": (
        "socket.listen.backlog.size",
    ),
    "broker/test_configs_at_work.py::test_fetch_max_bytes_bounds_every_answer": ("fetch.max.bytes",),
    "broker/test_configs_at_work.py::test_request_timeout_ms_is_how_long_the_controller_may_take": (
        "request.timeout.ms",
    ),
    "broker/test_configs_at_work.py::test_timestamps_too_far_from_now_are_refused": (
        "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
    ),
    "broker/test_tending_configs.py::test_checkpoints": (
        "log.flush.offset.checkpoint.interval.ms", "log.flush.start.offset.checkpoint.interval.ms",
        "replica.high.watermark.checkpoint.interval.ms",
    ),
    "broker/test_tending_configs.py::test_retention_is_looked_at_at_its_interval_and_after_a_first_delay": (
        "log.retention.check.interval.ms", "log.initial.task.delay.ms",
    ),
    "broker/test_tending_configs.py::test_files_stay_for_a_while_after_their_segment": (
        "log.segment.delete.delay.ms", "internal.segment.bytes",
    ),
    "broker/test_dynamic_config.py::test_a_new_limit_holds_for_topics_without_one_of_their_own": (
        "max.message.bytes", "message.max.bytes",
    ),
    # the broker's, for topics that say nothing; what each does is shown by the test of the topic's own
    "broker/test_dynamic_config.py::test_what_a_topic_takes_from_its_broker_changes_in_the_running_log": (
        "log.retention.ms", "log.retention.bytes", "log.segment.bytes", "log.roll.ms", "log.roll.jitter.ms",
        "log.index.size.max.bytes", "log.index.interval.bytes", "log.flush.interval.messages", "log.flush.interval.ms",
        "log.cleanup.policy", "log.cleaner.min.cleanable.ratio", "log.cleaner.delete.retention.ms",
        "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", "log.message.timestamp.type",
        "log.message.timestamp.before.max.ms", "log.message.timestamp.after.max.ms", "log.preallocate",
    ),
    "interop/test_fetch_sessions.py::test_a_full_cache_gives_no_session_and_clients_get_their_records_all_the_same": (
        "max.incremental.fetch.session.cache.slots",
    ),
    "log/test_flushing.py::test_nothing_is_committable_before_its_sync": ("flush.messages",),
    "log/test_flushing.py::test_a_shorter_time_is_obeyed_at_once": ("flush.ms",),
    "log/test_indexes.py::test_an_entry_is_made_when_more_than_the_interval_was_appended_since_the_last": (
        "index.interval.bytes",
    ),
    "log/test_retention.py::test_segments_go_while_the_rest_is_still_as_large_as_retention_bytes": ("retention.bytes",),
    "log/test_retention.py::test_a_segment_goes_when_its_newest_record_is_older_than_retention_ms": ("retention.ms",),
    "log/test_retention.py::test_not_with_the_compact_policy_alone": ("cleanup.policy",),
    "log/test_retention.py::test_files_are_renamed_at_once_and_removed_after_the_delay": ("file.delete.delay.ms",),
    "log/test_rolling.py::test_a_segment_is_filled_to_the_byte_and_no_further": ("segment.bytes",),
    "log/test_rolling.py::test_a_changed_config_is_obeyed": ("segment.ms",),
    "log/test_rolling.py::test_a_full_offset_index_rolls": ("segment.index.bytes",),
    "log/test_rolling.py::test_jitter_makes_segments_roll_earlier_by_less_than_it_says": ("segment.jitter.ms",),
    "log/test_rolling.py::test_a_preallocated_segment_is_read_back": ("preallocate",),
    "log/test_rolling.py::test_a_compacted_topic_rolls_in_time_for_its_compaction": ("max.compaction.lag.ms",),
    "metadata/test_brokers.py::test_a_replica_out_of_sync_leads_only_where_the_topic_allows_that": (
        "unclean.leader.election.enable",
    ),
    "replica/test_partition.py::test_records_get_the_brokers_time_and_a_right_checksum": ("message.timestamp.type",),
    "replica/test_partition.py::test_without_enough_in_sync_replicas_acks_all_is_refused_and_others_are_not_committed":
        ("min.insync.replicas",),
    "model/test_broker_config.py::test_node_id_and_broker_id_stand_for_each_other": ("broker.id", "node.id"),
    "model/test_broker_config.py::test_a_wrong_value_is_refused_with_name_value_and_what_is_allowed": (
        "process.roles",
    ),
    "model/test_broker_config.py::test_log_dir_counts_only_without_log_dirs": ("log.dir",),
    "model/test_config_providers.py::test_a_provider_that_cannot_be_used_is_refused": ("config.providers",),
    "model/test_listeners.py::test_the_controllers_listeners_are_kept_apart": ("controller.listener.names",),
    "model/test_listeners.py::test_nodes_talk_to_each_other_by_the_listener_of_the_protocol_if_none_is_named": (
        "security.inter.broker.protocol",
    ),
}  # fmt: skip


def working() -> set[str]:
    """Those that the reference says to work, at least in part."""
    read = names_read()
    return {row.name for row in EVERY_CONFIG if row.name in read and not row.no_effect}


def test_every_config_that_works_has_a_test() -> None:
    tested = {name for names in TESTED.values() for name in names}

    assert working() - tested == set(), "say in TESTED which test shows what its value does; write one if there is none"
    assert tested - working() == set(), "no such config works"


@cache
def functions_of(file: str) -> dict[str, str]:
    """The tests of a file with their decorators, as text."""
    text = (ROOT / "tests" / file).read_text()
    lines = text.splitlines()
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    return found


@pytest.mark.parametrize(("test", "names"), TESTED.items(), ids=lambda value: value if isinstance(value, str) else "")
def test_the_test_is_there_and_is_about_the_config(test: str, names: tuple[str, ...]) -> None:
    file, _, function = test.partition("::")
    assert function in functions_of(file)
    for name in names:
        forms = [re.escape(name), re.escape(name.replace(".", "_"))]
        if name in TOPIC_CONFIGS:
            forms += [re.escape(synonym.name) for synonym in TOPIC_CONFIGS[name].synonyms]
        whole_file = (ROOT / "tests" / file).read_text()  # a fixture may set it
        assert re.search(rf"(?<![\w.])({'|'.join(forms)})(?![\w.])", whole_file), f"{test} does not know {name}"
