"""Every API of the tables has a file that answers it, and a node starts without those that nobody asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.broker.apis import registry as brokers
from ottla.broker.context import Api
from ottla.broker.controller_apis import registry as controllers
from ottla.broker.later_parts import import_all


@pytest.mark.parametrize(
    "api", [*brokers.ALL, *controllers.ALL], ids=lambda api: f"{api.folder.rpartition('.')[2]}-{api.name}"
)
def test_each_has_a_file_that_answers(api: Api) -> None:
    fresh = Api(api.key, api.name, api.oldest, api.newest, folder=api.folder)
    before = fresh.handle
    fresh.load()
    assert callable(fresh.handle)
    assert fresh.handle != before
    assert api.name in str(sys.modules[fresh.module].__doc__)


@pytest.mark.parametrize("table", [brokers.ALL, controllers.ALL])
def test_no_key_is_twice_in_a_table(table: tuple[Api, ...]) -> None:
    assert len({api.key for api in table}) == len(table)


def test_all_can_be_imported_ahead() -> None:
    api = Api(18, "ApiVersions", 0, 4)
    import_all([api])
    assert api.handle is sys.modules[api.module].handle
    assert "ottla.coordinator.group.machine" in sys.modules


def test_a_node_starts_without_what_nobody_has_asked_for() -> None:
    program = "import sys, ottla.broker.run; print(*sorted(m for m in sys.modules if m.startswith('ottla.')))"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert "ottla.broker.node" in loaded
    surplus = {"ottla.coordinator.group.machine", "ottla.raft.rpc", "ottla.broker.apis.fetch"}.intersection(loaded)
    assert not surplus, f"these slow every start down: {surplus}"
