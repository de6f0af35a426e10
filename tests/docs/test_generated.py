"""Pages made from the code are what the code would make of them now, and links between pages lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tools import (
    generate_api_table,
    generate_cli_reference,
    generate_config_reference,
    generate_metrics_reference,
    generate_pipeline_reference,
)

from ottla.model.config import BROKER_CONFIGS, TOPIC_CONFIGS
from ottla.model.config.tables import client_metrics, cluster, group
from ottla.model.config.tables.to_come import TO_COME, part_to_come

ROOT = Path(__file__).resolve().parents[2]
EVERY_CONFIG = (
    *TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values(), *group.ROWS, *client_metrics.ROWS, *cluster.DYNAMIC_ONLY,
)  # fmt: skip
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("target", "render", "tool"),
    [
        (generate_config_reference.TARGET, generate_config_reference.render, "generate_config_reference"),
        (generate_cli_reference.TARGET, generate_cli_reference.render, "generate_cli_reference"),
        (generate_api_table.TARGET, generate_api_table.render, "generate_api_table"),
        (generate_metrics_reference.TARGET, generate_metrics_reference.render, "generate_metrics_reference"),
        (generate_pipeline_reference.TARGET, generate_pipeline_reference.render, "generate_pipeline_reference"),
    ],
    ids=["configs", "commands", "apis", "metrics", "pipelines"],
)
def test_a_generated_page_is_up_to_date(target: Path, render: Callable[[], str], tool: str) -> None:
    assert target.read_text() == render(), f"{target.relative_to(ROOT)} is old: python tools/{tool}.py writes it anew"


def test_a_config_works_or_is_said_not_to() -> None:
    """One that nothing reads is about the JVM, or belongs to a part that is still to come: never a silent third."""
    read = generate_config_reference.names_read()
    silent = [
        row.name
        for row in EVERY_CONFIG
        if row.name not in read and not row.no_effect and part_to_come(row.name) is None
    ]

    assert silent == [], "marked as working, but no code reads them"


def test_what_is_to_come_is_a_config_that_nothing_reads_yet() -> None:
    read = generate_config_reference.names_read()
    idle = [row.name for row in EVERY_CONFIG if row.name not in read]

    for part, entries in TO_COME.items():
        for entry in entries:
            fitting = [name for name in idle if name == entry or (entry.endswith(".") and name.startswith(entry))]
            assert fitting, f"{entry} ({part}) is at work: take it out of model/config/tables/to_come.py"


def test_every_config_that_works_in_part_is_a_config_that_is_read() -> None:
    read = generate_config_reference.names_read()

    for name in generate_config_reference.PARTS:
        assert name in TOPIC_CONFIGS or name in BROKER_CONFIGS
        assert name in read, f"{name} is said to work in part, but nothing reads it"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_pages_and_headings_that_are_there(page: Path) -> None:
    text = CODE.sub("", page.read_text())

    for link in LINK.findall(text):
        if "://" in link:
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        assert not fragment or fragment in anchors(target), f"{link}: there is no such heading"


def anchors(page: Path) -> set[str]:
    """As GitHub makes them from headings."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(CODE.sub("", page.read_text()))
    }
