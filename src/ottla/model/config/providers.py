"""Values that are kept elsewhere: `${NAME:PATH:KEY}` in a file of configs (KIP-297).

    config.providers=secrets
    config.providers.secrets.class=org.apache.kafka.common.config.provider.FileConfigProvider
    ssl.key.password=${secrets:/run/secrets/node.properties:key.password}

Kafka's three classes are known by their names and do the same here: one for environment variables, one for properties
files, one for folders with a file for each key. What has no value stays as it is written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ottla.model.config.properties import load_properties
from ottla.model.config_error import ConfigError

NAMES: Final = "config.providers"
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_REFERENCE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
Lookup = Callable[[str, str], str | None]
"""From path and key to the value."""


def resolved(values: Mapping[str, str]) -> Mapping[str, str]:
    """All values, with what the providers know put in. ConfigError if a provider cannot be used."""
    names = [name.strip() for name in values.get(NAMES, "").split(",") if name.strip()]
    if not names:
        return values
    providers = {name: _provider(name, values) for name in names}

    def replaced(config: str, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            lookup = providers.get(found[1])
            if lookup is None:
                return found[0]
            try:
                looked_up = lookup(found[2] or "", found[3])
            except OSError as error:
                raise ConfigError(config, text, f"{error.filename}: {error.strerror}") from None
            return found[0] if looked_up is None else looked_up

        return _REFERENCE.sub(value, text)

    return {name: replaced(name, text) for name, text in values.items()}


def _provider(name: str, values: Mapping[str, str]) -> Lookup:
    setting = f"{NAMES}.{name}.class"
    class_name = values.get(setting)
    if class_name is None:
        raise ConfigError(NAMES, values[NAMES], f"{name} is named, but {setting} is not set")
    prefix = f"{NAMES}.{name}.param."
    known: dict[str, Callable[[str], Lookup]] = {
        "EnvVarConfigProvider": lambda prefix: _environment(values.get(f"{prefix}allowlist.pattern")),
        "FileConfigProvider": lambda prefix: _file(_allowed(values.get(f"{prefix}allowed.paths"))),
        "DirectoryConfigProvider": lambda prefix: _directory(_allowed(values.get(f"{prefix}allowed.paths"))),
    }
    make = known.get(class_name.strip().removeprefix(_PACKAGE))
    if make is None:
        there = ", ".join(f"{_PACKAGE}{each}" for each in known)
        raise ConfigError(setting, class_name, f"there is no JVM here to load it; known are {there}")
    return make(prefix)


def _environment(pattern: str | None) -> Lookup:
    def lookup(path: str, key: str) -> str | None:
        if path or (pattern is not None and re.fullmatch(pattern, key) is None):
            return None
        return os.environ.get(key)

    return lookup


def _allowed(paths: str | None) -> Callable[[str], bool]:
    """Everything, if nothing is said."""
    if not paths:
        return lambda path: True
    roots = [Path(part.strip()).resolve() for part in paths.split(",") if part.strip()]
    return lambda path: any(Path(path).resolve().is_relative_to(root) for root in roots)


def _file(allowed: Callable[[str], bool]) -> Lookup:
    def lookup(path: str, key: str) -> str | None:
        return load_properties(path).values.get(key) if path and allowed(path) else None

    return lookup


def _directory(allowed: Callable[[str], bool]) -> Lookup:
    def lookup(path: str, key: str) -> str | None:
        file = Path(path) / key
        if not path or not allowed(path) or file.parent != Path(path) or not file.is_file():
            return None
        return file.read_text()

    return lookup
