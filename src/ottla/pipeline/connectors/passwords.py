"""Addresses as they may be shown and kept: without the passwords that stand in some."""

from __future__ import annotations

import re
from typing import Final

_PASSWORD: Final = re.compile(r"(password\s*=\s*)('[^']*'|[^\s&]+)|(//[^:/@]*):[^@]*@")


def without_password(text: str) -> str:
    return _PASSWORD.sub(lambda found: f"{found[1]}***" if found[1] else f"{found[3]}:***@", text)
