"""What the pages name is there: files, folders, packages, functions, commands and their options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ottla.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "ottla"
PACKAGES = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), ROOT / "bench" / "README.md"])
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))

SPAN = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
FIRST = {path.name for folder in (ROOT, SOURCE) for path in folder.iterdir() if path.is_dir()}
PATH = re.compile(r"(?P<path>[\w.-]+(?:/[\w.<>*-]+)*/?)(?::{1,2}(?P<line>\d+))?(?:: (?P<names>.+))?")
# Names of files that a node or a user makes, or that are Kafka's.
ELSEWHERE = {"conftest.py", "test_orders.py"}
PLACEHOLDERS = ("NAME", "<", "*", "...")


def spans(page: Path) -> Iterator[str]:
    yield from SPAN.findall(FENCED.sub("", page.read_text()))


def places(page: Path) -> Iterator[tuple[str, str]]:
    """Paths into the project, and what is said to be in them."""
    for span in spans(page):
        found = PATH.fullmatch(span)
        if found is None or found["path"] in ELSEWHERE or any(word in span for word in PLACEHOLDERS):
            continue
        path = found["path"]
        if path.endswith(".py") or (path.partition("/")[0] in FIRST and "/" in path):
            yield path, found["names"] or ""


def target(page: Path, path: str) -> Path | None:
    """Pages on a part of the source leave out its folder."""
    for folder in (ROOT, SOURCE, page.parent):
        if (folder / path).exists():
            return folder / path
    part = path.rstrip("/")
    return next(SOURCE.rglob(part), None) or next(ROOT.glob(f"t*/**/{part}"), None)


@EVERY_PAGE
def test_a_path_that_is_named_is_there(page: Path) -> None:
    missing = [path for path, _ in places(page) if target(page, path) is None]
    assert missing == []


@EVERY_PAGE
def test_what_is_said_to_be_in_a_file_is_in_it(page: Path) -> None:
    for path, names in places(page):
        file = target(page, path)
        if file is None or file.suffix != ".py":
            continue
        text = file.read_text()
        for name in re.findall(r"[A-Za-z_][\w.]*", names):
            last = name.rpartition(".")[2]
            assert re.search(rf"\b{last}\b", text), f"{path} has no {name}"


def test_paths_are_found_in_pages() -> None:
    """The tests above would be glad about a pattern that finds nothing."""
    assert len({path for page in PAGES for path, _ in places(page)}) > 100


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_described(package: str) -> None:
    architecture = (ROOT / "docs" / "architecture.md").read_text()
    assert re.search(rf"^\|  (?:[\w, ]*, )?{package}\b", architecture, re.MULTILINE), "in the picture of the layers"
    assert f"\n| `{package}` |" in architecture, "in the table of the packages"
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert f"`{package}`" in contributing.partition("imports only from those")[2].partition(". A package's line")[0]
    assert (SOURCE / package / "__init__.py").read_text().startswith('"""'), "a line of its own"


def commands(page: Path) -> Iterator[str]:
    text = page.read_text()
    yield from (span for span in spans(page) if span.startswith("ottla "))
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if re.match(r"(    |ottla )\s*", line) and (found := re.match(r"\s*(?:.*\| )?(ottla [a-z].*)", line)):
            yield found[1].partition("  #")[0].partition(" > ")[0].partition(" < ")[0].partition(" | ")[0]


@EVERY_PAGE
def test_a_command_that_is_named_is_there_with_its_options(page: Path) -> None:
    for text in commands(page):
        if any(word in text for word in ("...", "$(", '"$', "COMMAND")):
            continue
        _, *words = shlex.split(text)
        command: click.Command = cli
        context = click.Context(cli, info_name="ottla")
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(context, words[0])
            assert found is not None, f"{text}: there is no command {words[0]}"
            command, words = found, words[1:]
            context = click.Context(command, info_name=words[0] if words else "", parent=context)
        options = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
        for word in words:
            if word.startswith("--"):
                assert word.partition("=")[0] in {*options, "--help", "--version"}, f"{text}: there is no {word}"


def test_commands_are_found_in_pages() -> None:
    assert sum(1 for page in PAGES for _ in commands(page)) > 100
