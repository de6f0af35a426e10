"""`ottla profile`: named clusters."""

from __future__ import annotations

import click

from ottla.cli.cluster import Addresses
from ottla.cli.completing import profile_names
from ottla.cli.groups import SuggestingGroup
from ottla.cli.name_value import NameValue
from ottla.cli.output import Column, note, output_option, print_rows, print_value


@click.group(cls=SuggestingGroup)
def command() -> None:
    """Keep addresses of clusters under names: `-P NAME` or OTTLA_PROFILE, or `use` for all commands."""


@command.command()
@click.argument("name")
@click.argument("bootstrap", metavar="HOST:PORT[,...]")
@click.option(
    "-X", "own", type=NameValue(), multiple=True,
    help="A property of librdkafka for commands that move records, such as security.protocol; repeatable.",
)  # fmt: skip
@click.option("--use", is_flag=True, help="Use it for all commands from now on.")
def add(name: str, bootstrap: str, own: tuple[tuple[str, str], ...], use: bool) -> None:
    """Add the cluster at an address under NAME, or change it."""
    from ottla.cli import profiles

    addresses = Addresses().convert(bootstrap, None, click.get_current_context())
    if not addresses:
        raise click.UsageError("an address is needed, such as 127.0.0.1:9092")
    known = profiles.load()
    changed = name in known.profiles
    known.profiles[name] = profiles.Profile(",".join(map(str, addresses)), dict(own))
    if use:
        known.in_use = name
    profiles.store(known)
    told = "; all commands use it now" if known.in_use == name else f"; -P {name} uses it"
    note(f"{'Changed' if changed else 'Added'} profile {name}{told}.")


@command.command("list")
@output_option
def list_profiles(output: str | None) -> None:
    """List the profiles."""
    from ottla.cli import profiles

    known = profiles.load()
    rows = [
        {"profile": name, "bootstrap": profile.bootstrap, "in_use": name == known.in_use}
        for name, profile in known.profiles.items()
    ]
    if rows or output is not None:
        print_rows(
            output, (Column("PROFILE", "profile"), Column("ADDRESS", "bootstrap"), Column("IN USE", "in_use")), rows
        )
    else:
        note("There are no profiles yet; `ottla profile add NAME HOST:PORT` makes one.")


@command.command()
@click.argument("name", required=False, shell_complete=profile_names)
@output_option
def show(name: str | None, output: str | None) -> None:
    """Show the profile NAME, or the one in use. Secrets are not shown."""
    from ottla.cli import profiles

    known = profiles.load()
    name = name or known.in_use
    if name is None:
        note("No profile is in use.")
        return
    profile = known.named(name)
    properties = {
        key: "(secret)" if key.endswith(("password", "secret", ".pem", "sasl.jaas.config")) else value
        for key, value in profile.properties.items()
    }
    value = {
        "profile": name,
        "bootstrap": profile.bootstrap,
        "in_use": name == known.in_use,
        "properties": properties,
    }
    print_value(output if output in ("json", "yaml") else "yaml", value)


@command.command()
@click.argument("name", required=False, shell_complete=profile_names)
@click.option("--none", is_flag=True, help="Use none: commands go to 127.0.0.1:9092 again.")
def use(name: str | None, none: bool) -> None:
    """Use the cluster of profile NAME for all commands that are not told another one."""
    from ottla.cli import profiles

    if none == (name is not None):
        raise click.UsageError("give either a NAME or --none")
    known = profiles.load()
    if name is not None:
        known.named(name)
    known.in_use = name
    profiles.store(known)
    note("No profile is in use any more." if name is None else f"All commands use profile {name} now.")


@command.command()
@click.argument("name", shell_complete=profile_names)
def remove(name: str) -> None:
    """Remove the profile NAME; the cluster does not notice."""
    from ottla.cli import profiles

    known = profiles.load()
    known.named(name)
    del known.profiles[name]
    if known.in_use == name:
        known.in_use = None
    profiles.store(known)
    note(f"Removed profile {name}.")
