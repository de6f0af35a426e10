"""Which configs and properties of clients are secrets, that must not be shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "(secret)"
_WORDS: Final = ("password", "passphrase", "secret", "token", "credential", "jaas")
_ENDS: Final = ("key", "key.pem", "oauthbearer.config")


def may_be_secret(name: str) -> bool:
    """A password; of what nobody knows, all that sounds like one: brokers take any name, for their plug-ins."""
    from ottla.cli.config_names import all_names
    from ottla.model.config import BROKER_CONFIGS
    from ottla.model.config.definition import ConfigType

    plain = name.split(".", 3)[-1] if name.startswith("listener.name.") else name
    known = BROKER_CONFIGS.get(name) or BROKER_CONFIGS.get(plain)
    if known is not None:
        return known.type is ConfigType.PASSWORD
    return name not in all_names() and sounds_secret(name)


def sounds_secret(name: str) -> bool:
    return any(word in name for word in _WORDS) or name.endswith(_ENDS)


def advise_on_secrets(typed: Iterable[str]) -> None:
    """At a terminal, where a shell remembers."""
    import sys

    from ottla.cli.output import note

    found = [name for name in typed if may_be_secret(name) or sounds_secret(name)] if sys.stdin.isatty() else []
    if found:
        note(f"{', '.join(found)}: what was typed may stay in the history of your shell; --from-file avoids it.")
