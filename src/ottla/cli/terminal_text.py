"""Text of others, made harmless for a terminal: names, values and records may hold what moves its cursor or worse.

Escaped are the controls of C0 and C1, and those that turn the direction of writing (bidi), which can make a text read
as something else. A pipe or a file gets the bytes as they are.
"""

from __future__ import annotations

import re
from typing import Final

_CONTROL: Final = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_A_LINE: Final = re.compile(f"[{_CONTROL}]")
_IN_A_TEXT: Final = re.compile(f"(?![\t\n])[{_CONTROL}]")
_SHORT: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def one_line(text: str) -> str:
    """For a cell, a name, a message: nothing in it moves the cursor."""
    return _IN_A_LINE.sub(_escape, text)


def lines(text: str) -> str:
    """For what may have lines and tabs of its own, as a record's value."""
    return _IN_A_TEXT.sub(_escape, text)


def record_bytes(data: bytes) -> bytes:
    """Of a record: what is no UTF-8 is told byte by byte; a lone 0x9b begins a sequence on some terminals."""
    return lines(data.decode(errors="backslashreplace")).encode()


def json_text(text: str) -> str:
    """The same JSON, with escapes as JSON has them."""
    return _IN_A_TEXT.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _SHORT.get(found[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
