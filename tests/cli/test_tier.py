"""`ottla tier`, on a real node with a tier in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tests.tier.given import OF, segment, update
from tests.tier.tiered import TOPIC, create, produce, tiered_node, until_local_from
from tests.waiting import until

from ottla.cli.main import cli
from ottla.model.names import REMOTE_METADATA_TOPIC
from ottla.testing.node import RunningNode
from ottla.tier.metadata_records import metadata_partition, write_event
from ottla.tier.remote_segment import DeleteState, PartitionDelete, SegmentState


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningNode, Path]]:
    folder = tmp_path_factory.mktemp("tier")
    with tiered_node(folder) as running:
        create(running.address)
        end = produce(running.address, 0, 8)
        until_local_from(running, end)
        yield running, folder / "tier"


def ottla(running: RunningNode, *args: str) -> Result:
    return CliRunner().invoke(cli, ["tier", *args, "-b", running.address])


def test_status_tells_what_is_where(tier: tuple[RunningNode, Path]) -> None:
    result = ottla(tier[0], "status", "-O", "json")
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)
    assert row["bytes"] > 0 and row["segments"] >= 4
    expected = {
        "topic": TOPIC, "partition": 0, "start_offset": 0, "tiered_to": 39, "local_start_offset": 40,
        "end_offset": 40, "behind": 0, "unfinished": 0,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_status_tells_of_what_nothing_was_copied_of(tier: tuple[RunningNode, Path]) -> None:
    """The store may be down: that is when one asks how far copying is behind."""
    running, _ = tier
    create(running.address, "fresh", local_retention_ms="-2")
    produce(running.address, 0, 1, topic="fresh")
    (row,) = json.loads(ottla(running, "status", "fresh", "-O", "json").stdout)
    assert (row["segments"], row["tiered_to"], row["end_offset"], row["behind"]) == (0, -1, 5, 5)
    assert [each["topic"] for each in json.loads(ottla(running, "status", "-O", "json").stdout)] == ["fresh", TOPIC]
    admin = AdminClient({"bootstrap.servers": running.address})
    admin.delete_topics(["fresh"])["fresh"].result()


def test_ls_lists_segments(tier: tuple[RunningNode, Path]) -> None:
    result = ottla(tier[0], "ls", TOPIC, "-O", "json")
    rows = json.loads(result.stdout)
    assert [offset for row in rows for offset in range(row["start_offset"], row["end_offset"] + 1)] == list(range(40))
    assert all((tier[1] / f"{row['object']}.log").stat().st_size == row["bytes"] for row in rows)
    result = ottla(tier[0], "ls", "nothing")
    assert result.exit_code != 0
    for command in ("ls", "status", "cost"):
        assert "partition 7 of topic orders" in str(ottla(tier[0], command, f"{TOPIC}:0,7").exception)


def test_status_does_not_take_a_deleted_topic_for_its_namesake(tier: tuple[RunningNode, Path]) -> None:
    """What it had is still being cleared away."""
    running, _ = tier
    gone = segment(7, 0, 9)._replace(of=OF._replace(partition=0))
    events = (gone, update(gone, SegmentState.COPY_FINISHED))
    producer = Producer({"bootstrap.servers": running.address})
    number = metadata_partition(gone.of.topic_id, gone.of.partition, 2)
    for event in events:
        producer.produce(REMOTE_METADATA_TOPIC, write_event(event), partition=number)
    producer.flush()
    rows = json.loads(ottla(running, "status", TOPIC, "-O", "json").stdout)
    assert [row["end_offset"] for row in rows if row["segments"] == 1] == [None]
    producer.produce(
        REMOTE_METADATA_TOPIC, write_event(PartitionDelete(gone.of, 1, 0, DeleteState.FINISHED)), partition=number
    )
    producer.flush()


def test_cost_comes_from_the_prices(tier: tuple[RunningNode, Path]) -> None:
    result = ottla(tier[0], "cost", "--gb-month", "1000000", "--puts", "1000", "--gets", "1000", "-O", "json")
    (row,) = json.loads(result.stdout)
    assert row["month"] == pytest.approx(row["gb"] * 1_000_000)
    assert (row["copied"], row["read"]) == (6 * row["segments"], 3 * row["segments"])
    assert ottla(tier[0], "cost", "--gb-month", "-1").exit_code == 2


def test_verify_finds_what_is_wrong(tier: tuple[RunningNode, Path]) -> None:
    running, folder = tier
    store = ("--store", f"file://{folder}")
    whole = ottla(running, "verify", *store)
    assert whole.exit_code == 0, whole.output
    assert "all is well" in whole.stderr
    log = sorted(folder.rglob("*.log"))[1]
    content = log.read_bytes()
    try:
        log.write_bytes(content[:-1] + bytes((content[-1] ^ 1,)))
        damaged = ottla(running, "verify", *store)
        assert damaged.exit_code == 1
        assert "damaged" in damaged.stdout and log.name in damaged.stdout
        assert ottla(running, "verify", "--quick", *store).exit_code == 0
        log.write_bytes(content[:-1])
        assert "wrong size" in ottla(running, "verify", "--quick", *store).stdout
        log.unlink()
        missing = ottla(running, "verify", *store)
        assert missing.exit_code == 1
        assert "missing" in missing.stdout and log.name in missing.stdout
    finally:
        log.write_bytes(content)


def test_repair_deletes_what_belongs_to_no_segment_and_nothing_else(tier: tuple[RunningNode, Path]) -> None:
    running, folder = tier
    store = ("--store", f"file://{folder}")
    log = sorted(folder.rglob("*.log"))[1]
    orphan = log.with_name(f"{log.name[:20]}-AAAAAAAAAAAAAAAAAAAAAA.log")
    orphan.write_bytes(b"left by a crash")
    strange = folder / "readme.txt"
    strange.write_text("not ours")
    before = sorted(folder.rglob("*"))
    assert ottla(running, "verify", *store).exit_code == 1
    assert ottla(running, "verify", "--repair", *store, "-y").exit_code == 0
    assert sorted(folder.rglob("*")) == [path for path in before if path != orphan]
    strange.unlink()


def test_nothing_is_deleted_in_a_store_that_is_not_that_of_the_cluster(
    tier: tuple[RunningNode, Path], tmp_path: Path
) -> None:
    running, folder = tier
    log = sorted(folder.rglob("*.log"))[0].relative_to(folder)
    other = tmp_path / log.with_name(f"{log.name[:20]}-AAAAAAAAAAAAAAAAAAAAAA.log")
    other.parent.mkdir(parents=True)
    other.write_bytes(b"of another cluster")
    result = ottla(running, "verify", "--repair", "--yes", "--store", f"file://{tmp_path}")
    assert "Is it the right store?" in str(result.exception)
    above = ottla(running, "verify", "--repair", "--yes", "--store", f"file://{tmp_path.parent}")
    assert above.exit_code == 1 and "unknown" not in above.stdout
    assert other.exists()


def test_what_another_cluster_has_in_the_same_folder_stays(tier: tuple[RunningNode, Path], tmp_path: Path) -> None:
    """With segments of its own there, and without: all topics may be deleted, or none was copied yet."""
    running, folder = tier
    log = sorted(folder.rglob("*.log"))[0]
    other = folder / "orders-DWosHl87Toq3yRorPE1ebw" / "0" / f"{log.name[:20]}-AAAAAAAAAAAAAAAAAAAAAA.log"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"of another cluster")
    result = ottla(running, "verify", "--repair", "--yes", "--store", f"file://{folder}")
    assert result.exit_code == 1 and "that this cluster never copied" in result.stderr
    assert other.exists()
    with tiered_node(tmp_path) as fresh:
        create(fresh.address)
        until(lambda: ottla(fresh, "ls").exit_code == 0)
        result = ottla(fresh, "verify", "--repair", "--yes", "--store", f"file://{folder}")
    assert result.exit_code == 1 and log.exists() and other.exists()
    other.unlink()


def test_the_store_must_be_named(tier: tuple[RunningNode, Path], tmp_path: Path) -> None:
    assert "--store URL" in ottla(tier[0], "verify").output
    config = tmp_path / "server.properties"
    config.write_text(f"rsm.config.url=file://{tier[1]}\n")
    assert ottla(tier[0], "verify", "--config", str(config)).exit_code == 0
    config.write_text(f"remote.log.storage.manager.impl.prefix=my.\nmy.url=file://{tier[1]}\n")
    assert ottla(tier[0], "verify", "--config", str(config)).exit_code == 0


def test_a_folder_that_is_not_there_is_not_made_by_who_looks_at_it(
    tier: tuple[RunningNode, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "typo"
    assert "cannot be opened" in str(ottla(tier[0], "verify", "--store", f"file://{folder}").exception)
    assert not folder.exists()


def test_status_tells_of_a_tier_that_cannot_begin(tmp_path: Path) -> None:
    """One broker, and a metadata topic that is to be on three of them."""
    factor: dict[str, Any] = {"rlmm_config_remote_log_metadata_topic_replication_factor": 3}
    with tiered_node(tmp_path, **factor) as running:
        assert ottla(running, "status").exit_code == 0
        create(running.address)
        result = ottla(running, "status", "-O", "json")
        (row,) = json.loads(result.stdout)
        assert (row["topic"], row["segments"], row["tiered_to"]) == (TOPIC, 0, -1)
        assert "__remote_log_metadata is not there yet" in result.stderr
        assert "nothing of this cluster is in the remote tier" in str(ottla(running, "ls").exception)
