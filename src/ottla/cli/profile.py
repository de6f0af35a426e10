"""`ottla profile`: named clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.cluster_options import Addresses
from ottla.cli.completing import profile_names
from ottla.cli.groups import SuggestingGroup
from ottla.cli.name_value import NameValue, from_file_option
from ottla.cli.output import Column, note, outcome_option, output_option, print_outcome, print_rows
from ottla.cli.secrets import HIDDEN, advise_on_secrets, sounds_secret

if TYPE_CHECKING:
    from ottla.cli.profiles import Profiles


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
@from_file_option
@click.option("--use", is_flag=True, help="Use it for all commands from now on.")
@outcome_option
def add(
    name: str,
    bootstrap: str,
    own: tuple[tuple[str, str], ...],
    from_files: tuple[tuple[str, str], ...],
    use: bool,
    output: str | None,
) -> None:
    """Add the cluster at an address under NAME, or change it.

    What is typed stays in the history of the shell: read a password by --from-file sasl.password=FILE.
    """
    from ottla.cli import profiles

    addresses = Addresses().convert(bootstrap, None, click.get_current_context())
    if not addresses:
        raise click.UsageError("an address is needed, such as 127.0.0.1:9092")
    known = profiles.load()
    changed = name in known.profiles
    known.profiles[name] = profiles.Profile(",".join(map(str, addresses)), dict((*own, *from_files)))
    if use:
        known.in_use = name
    profiles.store(known)
    told = "; all commands use it now" if known.in_use == name else f"; -P {name} uses it"
    done = _as_row(known, name)
    print_outcome(output, done, f"{'Changed' if changed else 'Added'} profile {name}{told}.")
    advise_on_secrets(key for key, _ in own)


@command.command("list")
@output_option
def list_profiles(output: str | None) -> None:
    """List the profiles."""
    from ottla.cli import profiles

    known = profiles.load()
    rows = [_as_row(known, name) for name in known.profiles]
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
    properties = {key: HIDDEN if sounds_secret(key) else value for key, value in profile.properties.items()}
    print_outcome(output or "yaml", {**_as_row(known, name), "properties": properties})


@command.command()
@click.argument("name", required=False, shell_complete=profile_names)
@click.option("--none", is_flag=True, help="Use none: commands go to 127.0.0.1:9092 again.")
@outcome_option
def use(name: str | None, none: bool, output: str | None) -> None:
    """Use the cluster of profile NAME for all commands that are not told another one."""
    from ottla.cli import profiles

    if none == (name is not None):
        raise click.UsageError("give either a NAME or --none")
    known = profiles.load()
    if name is not None:
        known.named(name)
    known.in_use = name
    profiles.store(known)
    told = "No profile is in use any more." if name is None else f"All commands use profile {name} now."
    print_outcome(output, {"in_use": name}, told)


@command.command()
@click.argument("name", shell_complete=profile_names)
@outcome_option
def remove(name: str, output: str | None) -> None:
    """Remove the profile NAME; the cluster does not notice."""
    from ottla.cli import profiles

    known = profiles.load()
    known.named(name)
    del known.profiles[name]
    if known.in_use == name:
        known.in_use = None
    profiles.store(known)
    print_outcome(output, {"profile": name, "removed": True}, f"Removed profile {name}.")


def _as_row(known: Profiles, name: str) -> dict[str, Any]:
    return {"profile": name, "bootstrap": known.profiles[name].bootstrap, "in_use": name == known.in_use}
