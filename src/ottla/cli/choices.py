"""Options and arguments that are one of a few words."""

from __future__ import annotations

from typing import Any

import click

from ottla.model.near_miss import did_you_mean


class Choice(click.Choice):  # type: ignore[type-arg]  # generic only in newer versions of click
    """A mistyped word is answered with the one that looks like it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            close = did_you_mean(str(value), map(str, self.choices), cutoff=0.5)
            self.fail(f"{error.message.rstrip('.')}{close or '.'}", param, ctx)
