"""`ottla completion`: the script that lets a shell complete commands, options, topics, groups and profiles."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.choices import Choice

SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script that makes SHELL complete commands, options, topics, groups, configs and profiles.

    In ~/.bashrc: eval "$(ottla completion bash)". In ~/.zshrc: eval "$(ottla completion zsh)". For fish, once:
    ottla completion fish > ~/.config/fish/completions/ottla.fish
    """
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    from ottla.cli.main import cli

    class Bash(BashComplete):
        """Without the check of bash's version, which starts a bash."""

        def source(self) -> str:
            return self.source_template % self.source_vars()

    kinds = {"bash": Bash, "zsh": ZshComplete, "fish": FishComplete}
    click.echo(kinds[shell](cli, {}, "ottla", "_OTTLA_COMPLETE").source())
