"""`ottla config explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.config_names import all_names, hint, in_words, tables
from ottla.cli.output import output_option, print_value, shown

if TYPE_CHECKING:
    from ottla.model.config import ConfigDef


def _names(context: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return sorted(name for name in all_names() if name.startswith(incomplete))


@click.command("explain")
@click.argument("name", metavar="CONFIG", shell_complete=_names)
@click.option("-t", "--topic", shell_complete=topic_names, help="Also say where the value of this topic comes from.")
@click.option("--broker", type=click.IntRange(min=0), help="Also say where the value of this broker comes from.")
@output_option
@cluster_options
def command(name: str, topic: str | None, broker: int | None, output: str | None, cluster: Cluster) -> None:
    """Say what a config does, what it may be, its default, and whether it can change while a broker runs.

    That needs no cluster. With --topic or --broker one is asked where the value there comes from.
    """
    meanings = _meanings(name)
    if not meanings:
        from ottla.model.errors import OttlaError

        raise OttlaError(f"no config of Apache Kafka 4.3 has the name {name}{hint(name, all_names())}")
    for kind, given in (("topic", topic), ("broker", broker)):
        if given is not None:
            _add_live(meanings, kind, str(given), name, cluster)
    if output in ("json", "yaml"):
        print_value(output, meanings)
        return
    for number, meaning in enumerate(meanings):
        if number:
            click.echo()
        _print(meaning)


def _meanings(name: str) -> list[dict[str, Any]]:
    """A name may be that of a topic's config, of a broker's, or of both."""
    return [_meaning(kind, table[name]) for kind, table in tables().items() if name in table]


def _meaning(kind: str, definition: ConfigDef) -> dict[str, Any]:
    from ottla.model.config.definition import Required

    default = definition.default_text
    return {
        "config": definition.name,
        "of": kind,
        "meaning": definition.doc,
        "type": definition.type.name.lower(),
        "allowed": definition.allowed,
        "default": "must be set" if isinstance(definition.default, Required) else default,
        "default_in_words": in_words(definition.name, default),
        "change": _change(kind, definition),
        "falls_back_to": [synonym.name for synonym in definition.synonyms],
        "default_for": _default_for(kind, definition.name),
        "no_effect_in_ottla": definition.no_effect,
    }


def _change(kind: str, definition: ConfigDef) -> str:
    from ottla.model.config.definition import Update

    example = f"{definition.name}=VALUE"
    if kind != "broker":
        return f"at once, by `ottla config set {kind} NAME {example}`"
    match definition.update:
        case Update.READ_ONLY:
            return "in server.properties, with a restart of the broker"
        case Update.PER_BROKER:
            return f"at once, for one broker, by `ottla config set broker NUMBER {example}`"
        case _:
            return f"at once, for all brokers, by `ottla config set broker default {example}`, or for one by its number"


def _default_for(kind: str, name: str) -> list[str]:
    """The topic configs for which a broker's stands in."""
    from ottla.model.config import TOPIC_CONFIGS

    if kind != "broker":
        return []
    return [topic.name for topic in TOPIC_CONFIGS.values() if any(synonym.name == name for synonym in topic.synonyms)]


def _add_live(meanings: list[dict[str, Any]], kind: str, where: str, name: str, cluster: Cluster) -> None:
    from ottla.cli.admin import configs, session
    from ottla.cli.config.get import as_row
    from ottla.cli.config.resource import resource
    from ottla.model.errors import OttlaError

    wanted = resource(kind, where)

    async def ask(there: session.Session) -> list[configs.ConfigEntry]:
        return (await configs.configs(there, [wanted], [name]))[wanted]

    entries = session.run(cluster, ask)
    meaning = next((meaning for meaning in meanings if meaning["of"] == kind), None)
    if not entries or meaning is None:
        raise OttlaError(f"{name} is no config of a {kind}; it is one of a {meanings[0]['of']}")
    row = as_row(entries[0])
    meaning["in_force"] = {"for": str(wanted), **{key: row[key] for key in ("value", "source", "overrides")}}


def _print(meaning: dict[str, Any]) -> None:
    click.echo(f"{click.style(meaning['config'], bold=True)}, a config of {_OF[meaning['of']]}")
    for line in _wrapped(meaning["meaning"]):
        click.echo(f"  {line}")
    default = meaning["default"]
    told = "none" if default is None else "empty" if default == "" else default
    rows = [
        ("allowed", meaning["allowed"]),
        ("default", told + (f" ({meaning['default_in_words']})" if meaning["default_in_words"] else "")),
        ("to change", meaning["change"]),
    ]
    if meaning["falls_back_to"]:
        rows.append(("if not set", f"the broker's {', else '.join(meaning['falls_back_to'])}"))
    if meaning["default_for"]:
        rows.append(("stands for", f"{', '.join(meaning['default_for'])} of topics that do not set it"))
    if meaning["no_effect_in_ottla"]:
        rows.append(("in Ottla", "taken and shown, without effect: it is about the JVM or its threads"))
    live = meaning.get("in_force")
    if live:
        words = in_words(meaning["config"], live["value"])
        rows.append(("now", f"{live['value']}{f' ({words})' if words else ''}, from {live['source']} ({live['for']})"))
        rows += [("over", f"{each['value']}, from {each['source']}: {each['name']}") for each in live["overrides"]]
    for heading, text in rows:
        click.echo(f"  {heading:<10}  {shown(text)}")


_OF = {"topic": "topics", "broker": "brokers", "group": "groups", "client-metrics": "metrics subscriptions"}


def _wrapped(text: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, 100)
