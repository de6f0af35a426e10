"""Topic names by patterns of strangers: RE2's syntax, which takes no more than linear time."""

from __future__ import annotations

import re
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

_LONGEST: Final = 4096
_MOST_CLASSES: Final = 64
_MOST_REPETITIONS: Final = 1000
_CHECKED_IN_BYTES: Final = 128 * 1024
"""So much memory a new pattern may take. With the three above, none keeps the loop for much more than 20 ms."""
_MATCHED_IN_BYTES: Final = 8 * 1024 * 1024
_AT_ONCE: Final = 8000
"""So many names times characters of patterns are matched in less than a few milliseconds."""
_CLASS: Final = re.compile(r"\\[pP]")
_REPETITION: Final = re.compile(r"\{(?:\d+,)?(\d+)")


def check_pattern(pattern: str) -> None:
    """On the loop, so that one which could keep it is refused before it is compiled."""
    if len(pattern) > _LONGEST:
        raise KafkaError(
            ErrorCode.invalid_regular_expression,
            f"SubscribedTopicRegex has {len(pattern)} characters; there may be {_LONGEST}.",
        )
    try:
        _check_size(pattern)
        _compiled(pattern, _CHECKED_IN_BYTES)
    except ValueError as wrong:
        raise KafkaError(
            ErrorCode.invalid_regular_expression,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {wrong}.",
        ) from None


def is_quick(patterns: Sequence[str], names: int) -> bool:
    """Whether the loop can match them. Counted repetitions make short patterns of which that cannot be said."""
    return sum(map(len, patterns)) * names <= _AT_ONCE and not any("{" in pattern for pattern in patterns)


def _check_size(pattern: str) -> None:
    if len(_CLASS.findall(pattern)) > _MOST_CLASSES:
        raise ValueError(f"it names more than {_MOST_CLASSES} Unicode classes")
    counts = [int(most[:9]) for most in _REPETITION.findall(pattern)]
    if max(counts, default=0) > _MOST_REPETITIONS:
        raise ValueError(_WRONG["invalid repetition size"])
    if sum(counts) > _MOST_REPETITIONS:
        raise ValueError(f"its repetitions count more than {_MOST_REPETITIONS}")


def match(patterns: Sequence[str], names: Iterable[str]) -> dict[str, list[str]]:
    """The names that each pattern matches from beginning to end. Runs on the loop, or in another process."""
    return {pattern: _matches(pattern, names) for pattern in patterns}


def _matches(pattern: str, names: Iterable[str]) -> list[str]:
    try:
        fullmatch = _compiled(pattern, _MATCHED_IN_BYTES).fullmatch
    except ValueError:  # by another coordinator's lights it was one
        return []
    return [name for name in names if fullmatch(name)]


def _compiled(pattern: str, max_bytes: int) -> Any:
    """ValueError with what is wrong."""
    import re2  # only where there are patterns

    options = re2.Options()
    options.log_errors = False
    options.max_mem = max_bytes
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise ValueError(_WRONG.get(text.partition(":")[0], text)) from None
