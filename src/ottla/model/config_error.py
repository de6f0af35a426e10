"""The error of every config: apart from the config package, which imports listeners, which raise it."""

from __future__ import annotations

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
