"""Options that the commands about moves share."""

from __future__ import annotations

from typing import Any, Final

import click

from ottla.cli.times import Seconds

interval_option: Final = click.option(
    "-i", "--interval", type=Seconds(least=0.1), default=1.0, show_default=True, help="Seconds between looks."
)
keep_throttles_option: Final = click.option(
    "--keep-throttles", is_flag=True, help="Leave throttles as they are when all is done."
)


_MOST: Final = (1 << 63) - 1


class Rate(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """Bytes a second, with or without a unit."""

    name = "bytes/s"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        from ottla.cli.config_names import plain_value

        text = str(value).removesuffix("/s")
        number = plain_value("throttle.bytes", text)
        if not number.isdecimal() or not 0 < int(number) <= _MOST:
            self.fail(f"{value!r} is not an amount a second, such as 50MB, 10MiB or 1000000", param, ctx)
        return int(number)
