"""`ottla profile`, and which cluster a command talks to."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.main import cli
from ottla.model.errors import OttlaError

Invoke = Callable[..., Result]


@pytest.fixture
def ottla(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("OTTLA_PROFILE", "OTTLA_BOOTSTRAP"):
        monkeypatch.delenv(name, raising=False)

    def invoke(*args: str) -> Result:
        return CliRunner().invoke(cli, args)

    return invoke


def cluster_of(*args: str, env: dict[str, str] | None = None) -> str:
    """The address that a command with these options would talk to."""
    import click

    @click.command()
    @cluster_options
    def probe(cluster: Cluster) -> None:
        click.echo(",".join(map(str, cluster.bootstrap)))

    done = CliRunner().invoke(probe, args, env=env, catch_exceptions=False)
    return done.output.strip()


def test_profiles_are_added_used_and_removed(ottla: Invoke) -> None:
    assert "There are no profiles yet" in ottla("profile", "list").output
    assert ottla("profile", "add", "prod", "a:1,b", "-X", "ssl.key.password=hush").exit_code == 0
    assert "all commands use it now" in ottla("profile", "add", "local", "127.0.0.1:5", "--use").output
    assert json.loads(ottla("profile", "list", "-O", "json").output) == [
        {"profile": "prod", "bootstrap": "a:1,b:9092", "in_use": False},
        {"profile": "local", "bootstrap": "127.0.0.1:5", "in_use": True},
    ]
    shown = ottla("profile", "show", "prod").output
    assert "(secret)" in shown and "hush" not in shown
    assert ottla("profile", "use", "prod").exit_code == 0
    assert json.loads(ottla("profile", "show", "-O", "json").output)["profile"] == "prod"
    assert ottla("profile", "remove", "prod").exit_code == 0
    assert "No profile is in use" in ottla("profile", "show").output


def test_only_the_owner_can_read_the_file(ottla: Invoke, tmp_path: Path) -> None:
    ottla("profile", "add", "prod", "a:1")
    file = tmp_path / "ottla" / "profiles.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [entry.name for entry in file.parent.iterdir()] == ["profiles.json"]


def test_the_command_line_counts_before_the_environment_before_the_profile_in_use(ottla: Invoke) -> None:
    assert cluster_of() == "127.0.0.1:9092"
    ottla("profile", "add", "used", "used:1", "--use")
    ottla("profile", "add", "other", "other:1")
    assert cluster_of() == "used:1"
    assert cluster_of(env={"OTTLA_PROFILE": "other"}) == "other:1"
    assert cluster_of(env={"OTTLA_BOOTSTRAP": "env:1"}) == "env:1"
    assert cluster_of(env={"OTTLA_BOOTSTRAP": "env:1", "OTTLA_PROFILE": "other"}) == "env:1"
    assert cluster_of("-P", "other", env={"OTTLA_BOOTSTRAP": "env:1"}) == "other:1"
    assert cluster_of("-b", "typed:1", env={"OTTLA_PROFILE": "other"}) == "typed:1"
    assert "exclude each other" in cluster_of("-b", "typed:1", "-P", "other")
    ottla("profile", "use", "--none")
    assert cluster_of() == "127.0.0.1:9092"


def test_a_mistyped_profile_is_told(ottla: Invoke) -> None:
    ottla("profile", "add", "production", "a:1")
    with pytest.raises(OttlaError, match=r"there is no profile prodution; did you mean production\?"):
        cluster_of("-P", "prodution")


def test_a_damaged_file_is_told_and_named(ottla: Invoke, tmp_path: Path) -> None:
    (tmp_path / "ottla").mkdir()
    (tmp_path / "ottla" / "profiles.json").write_text("{")
    with pytest.raises(OttlaError, match=r"profiles\.json cannot be read .*: put it right, or remove it"):
        cluster_of()


def test_a_wrong_address_is_refused(ottla: Invoke) -> None:
    refused = ottla("profile", "add", "x", "h:port")
    assert refused.exit_code == 2 and "is not host:port" in refused.output
