"""The file of profiles: named clusters, and which of them is in use.

It lies in the user's configuration folder and may hold secrets, so only its owner can read it.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from ottla.model.near_miss import did_you_mean

FILE_NAME: Final = "profiles.json"
_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class Profile:
    bootstrap: str
    properties: dict[str, str] = field(default_factory=dict)
    """Properties of librdkafka: what a cluster with TLS or SASL asks of its clients."""


@dataclass(slots=True)
class Profiles:
    profiles: dict[str, Profile] = field(default_factory=dict)
    in_use: str | None = None

    def chosen(self, name: str | None) -> Profile | None:
        """The named profile, else the one in use, else None. OttlaError if there is none of that name."""
        if name is None:
            name = self.in_use
        return None if name is None else self.named(name)

    def named(self, name: str) -> Profile:
        from ottla.model.errors import OttlaError

        if name not in self.profiles:
            hint = did_you_mean(name, self.profiles) or "; `ottla profile list` shows those that are there"
            raise OttlaError(f"there is no profile {name}{hint}")
        return self.profiles[name]


def path() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "ottla" / FILE_NAME


def load() -> Profiles:
    file = path()
    if not file.exists():  # nothing to import for most users and most commands
        return Profiles()
    import json

    from ottla.model.errors import OttlaError

    try:
        content: Any = json.loads(file.read_text())
        found = {name: Profile(**entry) for name, entry in content["profiles"].items()}
        return Profiles(found, content.get("in_use"))
    except OSError as error:
        raise OttlaError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OttlaError(f"{file} cannot be read ({error}): put it right, or remove it and add profiles anew") from None


def store(profiles: Profiles) -> None:
    import json

    from ottla.model.errors import OttlaError

    file = path()
    text = json.dumps(
        {"in_use": profiles.in_use, "profiles": {name: asdict(entry) for name, entry in profiles.profiles.items()}},
        indent=2,
    )
    written = file.with_name(f"{FILE_NAME}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
        with os.fdopen(descriptor, "w") as out:
            out.write(text + "\n")
        written.replace(file)  # in one step: another command may be reading it
    except OSError as error:
        raise OttlaError(f"cannot write {file}: {error.strerror}") from None
