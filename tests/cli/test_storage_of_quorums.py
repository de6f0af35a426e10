"""`ottla storage format` for quorums whose voters are in the log (KIP-853), with the options of Kafka's tool."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.command import run_ottla

from ottla.env.disk import PosixDisk
from ottla.metadata import meta_properties
from ottla.model.ids import uuid_text
from ottla.raft.log_view import BOOTSTRAP_SNAPSHOT
from ottla.raft.snapshot_format import Contents
from ottla.raft.snapshot_store import SnapshotStore
from ottla.raft.voters import Endpoint

ID = "4L6g3nShT-eMCtK--X86sw"
ONE, TWO = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A"
VOTERS = f"1@localhost:9093:{ONE},2@[::1]:9094:{TWO}"


def properties(folder: Path, *more: str, roles: str = "controller") -> Path:
    file = folder / "server.properties"
    listeners = {"controller": "CONTROLLER://localhost:9093", "broker": "PLAINTEXT://localhost:9092"}[roles]
    lines = [
        f"process.roles={roles}",
        "node.id=1",
        f"listeners={listeners}",
        "controller.listener.names=CONTROLLER",
        f"log.dirs={folder}/data",
        *more,
    ]
    file.write_text("\n".join(lines) + "\n")
    return file


SERVERS = "controller.quorum.bootstrap.servers=localhost:9093,localhost:9094"


def format_storage(file: Path, *args: str) -> tuple[int, str]:
    done = run_ottla("storage", "format", "-t", ID, "-c", str(file), *args)
    return done.returncode, done.stdout + done.stderr


def first_snapshot(folder: Path) -> Contents | None:
    store = SnapshotStore(PosixDisk(), f"{folder}/data/__cluster_metadata-0")
    if not Path(f"{folder}/data/__cluster_metadata-0").exists():
        return None
    store.recover(0)
    return store.read(BOOTSTRAP_SNAPSHOT)


def directory_id(folder: Path) -> str:
    meta = meta_properties.load(PosixDisk(), f"{folder}/data")
    assert meta is not None
    return uuid_text(meta.directory_id)


def test_standalone_begins_with_this_controller_alone(tmp_path: Path) -> None:
    code, told = format_storage(properties(tmp_path, SERVERS), "--standalone")

    assert code == 0, told
    contents = first_snapshot(tmp_path)
    assert contents is not None and contents.voters is not None
    assert contents.kraft_version == 1
    (voter,) = contents.voters.nodes.values()
    assert (voter.key.id, uuid_text(voter.key.directory_id)) == (1, directory_id(tmp_path))
    assert voter.endpoints == (Endpoint("CONTROLLER", "localhost", 9093),)


def test_initial_controllers_are_the_same_for_all(tmp_path: Path) -> None:
    code, told = format_storage(properties(tmp_path, SERVERS), "--initial-controllers", VOTERS)

    assert code == 0, told
    contents = first_snapshot(tmp_path)
    assert contents is not None and contents.voters is not None
    assert contents.voters.ids == (1, 2)
    assert contents.voters.endpoints(2) == (Endpoint("CONTROLLER", "::1", 9094),)
    assert directory_id(tmp_path) == ONE


@pytest.mark.parametrize("roles", ["controller", "broker"])
def test_one_who_comes_later_knows_no_voters(tmp_path: Path, roles: str) -> None:
    code, told = format_storage(properties(tmp_path, SERVERS, roles=roles), "--no-initial-controllers")

    assert code == 0, told
    assert first_snapshot(tmp_path) is None


@pytest.mark.parametrize(
    ("line", "args", "words"),
    [
        (SERVERS, (), "--standalone, --initial-controllers, or --no-initial-controllers"),
        (SERVERS, ("--standalone", "--no-initial-controllers"), "exclude each other"),
        ("controller.quorum.voters=1@localhost:9093", ("--standalone",), "controller.quorum.bootstrap.servers instead"),
        (SERVERS, ("--initial-controllers", "1@localhost:9093"), "is not id@host:port:directory"),
        (SERVERS, ("--initial-controllers", f"1@localhost:99999:{ONE}"), "is not between 0 and 65535"),
        (SERVERS, ("--initial-controllers", f"1@h:1:{ONE},1@h:2:{TWO}"), "name a node twice"),
        (SERVERS, ("--initial-controllers", "1@h:1:x"), "random-uuid"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_formatted(
    tmp_path: Path, line: str, args: tuple[str, ...], words: str
) -> None:
    code, told = format_storage(properties(tmp_path, line), *args)

    assert code == 1
    assert words in told
    assert not (tmp_path / "data").exists()


def test_a_broker_cannot_begin_a_quorum(tmp_path: Path) -> None:
    code, told = format_storage(properties(tmp_path, SERVERS, roles="broker"), "--standalone")

    assert code == 1 and "--standalone is for a controller" in told
    assert not (tmp_path / "data").exists()
