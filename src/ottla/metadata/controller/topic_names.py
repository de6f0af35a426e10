"""Which names a topic may have."""

import re
from collections.abc import Iterable
from typing import Final

MAX_LENGTH: Final = 249  # with "-", ten digits and ".…-delete" a folder's name stays within 255
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]*")


def what_is_wrong(name: str) -> str | None:
    """Kafka's words for it; None if the name is a good one."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    elif not _LEGAL.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {reason}"


def has_collision_chars(name: str) -> bool:
    """Names of metrics have no dots: `a.b` and `a_b` would be one and the same there."""
    return "." in name or "_" in name


def collision_key(name: str) -> str:
    return name.replace(".", "_")


def colliding(names: Iterable[str]) -> dict[str, str]:
    """Names that others can collide with, by the form they share."""
    found: dict[str, str] = {}
    for name in names:
        if has_collision_chars(name):
            found.setdefault(collision_key(name), name)
    return found
