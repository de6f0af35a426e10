"""Topic names by patterns of strangers: RE2's syntax, which takes no more than linear time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ottla.model.errors import ErrorCode, KafkaError

_WRONG: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid escape sequence": "invalid escape sequence",
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "trailing \\": "trailing backslash at end of expression",
    "missing ]": "missing closing ]",
    "invalid character class range": "invalid character class range",
}
"""What RE2 says, and what Kafka's (RE2/J) says to the same."""


def check_pattern(pattern: str) -> None:
    try:
        _compiled(pattern)
    except ValueError as wrong:
        raise KafkaError(
            ErrorCode.invalid_regular_expression,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {wrong}.",
        ) from None


def match(patterns: Sequence[str], names: Iterable[str]) -> dict[str, list[str]]:
    """The names that each pattern matches from beginning to end. Runs on the loop, or in another process."""
    return {pattern: _matches(pattern, names) for pattern in patterns}


def _matches(pattern: str, names: Iterable[str]) -> list[str]:
    try:
        fullmatch = _compiled(pattern).fullmatch
    except ValueError:  # by another coordinator's lights it was one
        return []
    return [name for name in names if fullmatch(name)]


def _compiled(pattern: str) -> Any:
    """ValueError with what is wrong."""
    import re2  # only where there are patterns

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise ValueError(_WRONG.get(text.partition(":")[0], text)) from None
