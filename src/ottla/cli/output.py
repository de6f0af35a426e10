"""What commands print: aligned columns for a person, tab-separated lines for a program, or JSON or YAML."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import click

from ottla.cli.choices import Choice
from ottla.cli.terminal_text import json_text, lines, one_line

F = TypeVar("F", bound=Callable[..., Any])
FORMATS: Final = ("table", "json", "yaml")


def output_option(function: F) -> F:
    """Gives a command that lists things the argument `output`: table, json, yaml, or None if none was asked for."""
    return _output_option("By default a table on a terminal, otherwise plain lines.")(function)


def outcome_option(function: F) -> F:
    """The same for a command that does something and then tells by `print_outcome`."""
    return _output_option("What was done, for programs. By default a remark on stderr.")(function)


def _output_option(text: str) -> Callable[[F], F]:
    return click.option("-O", "--output", type=Choice(FORMATS), help=text)


def is_terminal() -> bool:
    return sys.stdout.isatty()


class Column(NamedTuple):
    """A heading, and which entry of a row stands under it, or what is made of the row."""

    heading: str
    key: str | Callable[[Mapping[str, Any]], str]


def print_rows(output: str | None, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
    """A list: tables show what has a column, JSON and YAML all that the rows have."""
    if output in ("json", "yaml"):
        print_value(output, list(rows))
    else:
        texts = [
            [cell(row[column.key]) if isinstance(column.key, str) else column.key(row) for column in columns]
            for row in rows
        ]
        print_table([column.heading for column in columns], texts, output)


def print_value(output: str, value: Any) -> None:
    """Something structured, as JSON or YAML."""
    if output == "json":
        import json

        click.echo(json_text(json.dumps(value, indent=2, ensure_ascii=False)))
    else:
        click.echo("\n".join(yaml_lines(value)))


def print_outcome(output: str | None, done: Mapping[str, Any] | Sequence[Mapping[str, Any]], *sentences: str) -> None:
    """What a command has done: sentences for a person, or what they say as a table, JSON or YAML."""
    if output is None:
        for sentence in sentences:
            note(sentence)
    elif output == "table":
        rows = [done] if isinstance(done, Mapping) else done
        headings = rows[0] if rows else ()
        print_rows(output, [Column(key.replace("_", " ").upper(), key) for key in headings], rows)
    else:
        print_value(output, done)


class ItemStream:
    """A long list as JSON or YAML, an item at a time, so that it need not fit into memory."""

    def __init__(self, output: str) -> None:
        self._json = output == "json"
        self._any = False

    def write(self, item: Any) -> None:
        if self._json:
            import json

            text = json_text(json.dumps(item, ensure_ascii=False))
            click.echo((",\n" if self._any else "[\n") + text, nl=False)
        else:
            click.echo("\n".join(yaml_lines([item])))
        self._any = True

    def end(self) -> None:
        if self._json:
            click.echo("\n]" if self._any else "[]")
        elif not self._any:
            click.echo("[]")


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]], output: str | None = None) -> None:
    """With a header and columns on a terminal or if asked for; otherwise only the rows, separated by tabs."""
    if not is_terminal() and output != "table":
        for row in rows:
            click.echo("\t".join(map(str, row)))
        return
    head, *body = aligned([header, *([one_line(str(each)) for each in row] for row in rows)])
    click.echo(click.style(head, bold=True))
    for line in body:
        click.echo(line)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines, each column as wide as the widest of its cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def cell(value: Any) -> str:
    """A value in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(cell, value)) or "none"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={cell(entry)}" for name, entry in value.items()) or "none"
    return str(value)


def shown(text: object) -> str:
    """What others have written, in a line for a person: harmless on a terminal, as it is elsewhere."""
    return one_line(str(text)) if is_terminal() else str(text)


def count(number: int, what: str) -> str:
    """With thousands apart, which long numbers need and short ones do not notice."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def note(text: str) -> None:
    """For the person in front of the terminal, never in the way of the output itself."""
    click.echo(lines(text) if sys.stderr.isatty() else text, err=True)


def may_go_on(question: str, yes: bool) -> None:
    """Asks on a terminal unless told not to; ends the command if the answer is no, or if nobody can be asked."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError("this cannot be undone, and there is no terminal to ask on: say --yes if it is meant")
    click.confirm(question, abort=True, err=True)


# A small part of YAML's ways to write a value: blocks for what is nested, JSON's quoting for any text that could be
# taken for something else. That needs no library, which would cost every installation a dependency.

_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_NOT_TEXT: Final = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))


def yaml_lines(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping) and value:
        for name, entry in value.items():
            yield from _under(f"{_scalar(str(name))}:", entry)
    elif isinstance(value, list | tuple) and value:
        for entry in value:
            first, *rest = yaml_lines(entry)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


def _under(name: str, entry: Any) -> Iterable[str]:
    if isinstance(entry, Mapping | list | tuple) and entry:
        yield name
        yield from (f"  {line}" for line in yaml_lines(entry))
    else:
        yield f"{name} {_scalar(entry)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    import json

    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):  # YAML wants a point in it: 1.0e+16
        mantissa, exponent, rest = text.partition("e")
        return f"{mantissa}{'' if '.' in mantissa else '.0'}{exponent}{rest}"
    return "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in text)
