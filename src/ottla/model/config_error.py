"""The error of every config: apart from the config package, which imports listeners, which raise it."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.model.errors import OttlaError


class ConfigError(OttlaError):
    """A value that cannot be used. `where` is the file and line, when it came from a file."""

    def __init__(self, name: str, value: str | None, reason: str, where: str | None = None) -> None:
        if not name:
            told = reason
        elif value is None:  # there is none, or it must not be shown
            told = f"Configuration {name}: {reason}"
        else:
            told = f"Invalid value {value} for configuration {name}: {reason}"
        super().__init__(f"{where}: {told}" if where else told)
        self.name = name
        self.value = value
        self.reason = reason
        self.where = where

    def at(self, where: str) -> ConfigError:
        return ConfigError(self.name, self.value, self.reason, where)


class ConfigErrors(ConfigError):
    """Several at once, so that a file need not be put right one start at a time. The first speaks for all by name."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        first = errors[0]
        super().__init__(first.name, first.value, first.reason, first.where)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return f"{len(self.errors)} configs cannot be used:" + "".join(f"\n  {error}" for error in self.errors)


def raise_any(errors: Sequence[ConfigError]) -> None:
    if errors:
        raise errors[0] if len(errors) == 1 else ConfigErrors(errors)
