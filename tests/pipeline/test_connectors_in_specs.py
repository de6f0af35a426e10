"""Connectors as a spec names them: nothing that they have is hidden by what all of them may have."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest

from ottla.pipeline import options, picture
from ottla.pipeline.connectors import registry
from ottla.pipeline.spec import BadSpec, OfSinks, OfSources, Spec, understood

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "pipelines-connectors.md"
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def names(kind: type) -> set[str]:
    return {one.name for one in options.declared(kind)}


def spec_of(text: str) -> Spec:
    return understood(text, "spec.yaml", Path("/nowhere"))


def with_sink(block: str) -> str:
    return (
        f"name: shop\nsources: {{rows: {{topic: t}}}}\nsinks:\n  out:\n    from: rows\n{textwrap.indent(block, '    ')}"
    )


@pytest.mark.parametrize("name", registry.SINKS)
def test_no_sink_has_an_entry_that_all_sinks_have(name: str) -> None:
    assert not names(registry.sink(name).options) & names(OfSinks)


@pytest.mark.parametrize("name", registry.SOURCES)
def test_no_source_has_an_entry_that_all_sources_have(name: str) -> None:
    assert not names(registry.source(name).options) & names(OfSources)


@pytest.mark.parametrize("connector", ["delta: /data/t", "iceberg: shop.t", "postgres: postgresql:///shop, table: t"])
def test_rows_that_change_are_upserted(connector: str) -> None:
    text = f"from: rows\n{connector.replace(', ', chr(10))}\nwrite: upsert\nkey: value\nmode: update\n"
    (sink,) = spec_of(with_sink(text.replace("from: rows\n", ""))).sinks.values()
    assert (sink.mode, sink.sink.given.write, sink.sink.given.key) == ("update", "upsert", ("value",))


@pytest.mark.parametrize("block", BLOCKS, ids=[block.split(":")[0] for block in BLOCKS])
def test_what_the_page_shows_is_right(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_TOKEN", "secret")
    if block.startswith("sources:"):
        made = f"name: shop\n{block}sinks: {{out: {{topic: t, from: customers, key: key, encode: string}}}}\n"
        assert spec_of(made).sources
        return
    as_source = (
        f"name: shop\nsources:\n  rows:\n{textwrap.indent(block, '    ')}sinks: {{out: {{topic: t, from: rows}}}}\n"
    )
    told = []
    for text in (with_sink(block), as_source):
        try:
            spec_of(text)
            return
        except BadSpec as error:
            told.append(error.lines)
    raise AssertionError(told)


def test_passwords_are_neither_shown_nor_kept() -> None:
    text = """
name: shop
sources:
  new: {postgres: "postgresql://ada:s3cret@db/shop", table: orders, grows-by: id}
  changes: {postgres-changes: "host=db password=s3cret dbname=shop", tables: [orders, items]}
sinks:
  out: {postgres: "postgresql://:s3cret@db/shop", table: copy, from: new, key: id}
  again: {http: "https://ada:s3cret@shop.example/x", from: changes, key: key}
"""
    spec = spec_of(text)
    shown = [*picture.lines(spec), *picture.mermaid(spec), json.dumps(picture.rows(spec))]
    assert "s3cret" not in "".join(shown)
    assert spec.sources["new"].source.what == "postgresql://ada:***@db/shop orders by id"
    assert spec.sources["changes"].source.what == "host=db password=*** dbname=shop orders, items"
