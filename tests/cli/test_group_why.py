"""What `ottla group why` prints."""

from __future__ import annotations

import io

import pytest

from ottla.cli.admin.group_history import GroupHistory
from ottla.cli.admin.group_lag import Progress
from ottla.cli.admin.groups import Group
from ottla.cli.group.why_report import Report
from ottla.coordinator.group.history.entries import Change, Outcome, Rebalance, What, Who


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("what", [What.LEFT, What.JOINED, What.EXPIRED, What.SUBSCRIPTION_CHANGED])
def test_what_clients_say_does_nothing_to_a_terminal(what: What, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "app\x1b]0;owned\x07\x1b[2J\u202e"
    who = Who("member-1", evil, "10.0.0.1", f"instance{evil}")
    change = Change(1000, what, who, f"bye{evil}\rGroup g is stable", before=[evil], after=[f"{evil}2"])
    rebalance = Rebalance(0, 1000, "classic", 2, changes=[change], outcome=Outcome.COMPLETED, ended=2000, members=1)
    group = Group(f"g{evil}", "Classic", "Stable", "range", 1)
    monkeypatch.setattr("sys.stdout", Terminal())
    report = Report(Progress(group, ()), GroupHistory([rebalance], None), 0, 10_000)
    lines = [line.replace("\x1b[1m", "").replace("\x1b[33m", "").replace("\x1b[0m", "") for line in report.lines(5, 90)]
    assert "\\x1b" in "".join(lines)
    assert not [line for line in lines if not line.isprintable()]
