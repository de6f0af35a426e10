"""The levels of this process's loggers, under Kafka's names for them (KIP-412). They last until the node stops."""

from __future__ import annotations

import logging
from typing import Final

ROOT: Final = "root"
_OURS: Final = "ottla"
TRACE: Final = 5

LEVELS: Final = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def levels() -> dict[str, str]:
    """The level in force of the root logger and of each of ours."""
    return {name: _name_of(_logger(name).getEffectiveLevel()) for name in (ROOT, *_names())}


def exists(name: str) -> bool:
    return name == ROOT or name in _names()


def set_level(name: str, level: str) -> None:
    _logger(name).setLevel(LEVELS[level])


def unset_level(name: str) -> None:
    """From now on as the logger above it says."""
    _logger(name).setLevel(logging.NOTSET)


def _names() -> list[str]:
    known = {name for name in logging.root.manager.loggerDict if name == _OURS or name.startswith(f"{_OURS}.")}
    return sorted(known | {_OURS})


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)


def _name_of(level: int) -> str:
    """The nearest of Kafka's levels below."""
    return next((name for name, number in reversed(LEVELS.items()) if number <= level), "TRACE")
