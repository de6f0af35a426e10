"""Where log lines go and how they look: the one home of logging.

For people: a line each, with colour on a terminal. For programs: a JSON object each. Everybody logs through Python's
own `logging`; what is worth its own field goes into `extra`, and shows in JSON.

Lines often quote what strangers sent, so nothing in a message or a trace can pass for a line of its own or steer a
terminal, and what looks like a secret is blotted out wherever it comes from.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

FORMATS: Final = ("human", "json")

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Every repetition is bounded: what is looked through may be long, and made to take long.
_VALUE: Final = r"(?:\"[^\"]*\"|'[^']*'|[^\s,;]+)"
_SECRETS: Final = tuple(
    (re.compile(pattern), kept)
    for pattern, kept in (
        # A whole login module, up to its semicolon: names and passwords stand side by side in it.
        (r"(?i)(jaas\.config[\"']?\s{0,8}[=:]\s{0,8})[^\n;]*", r"\1***"),
        (
            r"(?i)((?:password|passwd|secret|credential|token|api[_.\-]?key|private[_.\-]?key)[\w.\-]{0,64}[\"']?"
            rf"\s{{0,8}}[=:]\s{{0,8}}){_VALUE}",
            r"\1***",
        ),
        (r"(?i)(\bauthorization[\"']?\s{0,8}[=:]\s{0,8}[\"']?(?:[a-z]{1,16}\s{1,4})?)[^\s,;\"']+", r"\1***"),
        (r"(?i)(\bbearer\s{1,4})[\w.~+/=\-]{8,}", r"\1***"),
        (r"(://[^\s/:@]{0,256}:)[^\s/@]{1,256}@", r"\1***@"),
        (r"(-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----)[^-]*", r"\1***"),
        (r"\beyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*", "***"),  # a JSON web token
    )
)
_INDENT: Final = "    "  # no line of a trace, which may quote a stranger, looks like a line of the log
_COLOURS: Final = {logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "1;31", logging.DEBUG: "2"}


def set_up(
    form: str, stream: TextIO | None = None, *, node_id: int | None = None, among_others: bool = False
) -> None:  # fmt: skip
    """From now on everything at INFO and above goes to the stream (standard error), in this form.

    Programs are always told which node it is; people where `among_others` others write to the same place.
    """
    out = stream if stream is not None else sys.stderr
    handler = logging.StreamHandler(out)
    who = f"node {node_id} " if among_others else ""
    formatter = JsonFormatter(node_id) if form == "json" else HumanFormatter(colour=_wants_colour(out), who=who)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)


def _wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def without_secrets(text: str) -> str:
    for pattern, kept in _SECRETS:
        text = pattern.sub(kept, text)
    return text


class HumanFormatter(logging.Formatter):
    def __init__(self, *, colour: bool, who: str = "") -> None:
        super().__init__()
        self._colour = colour
        self._who = who

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created)
        when = at.strftime("%H:%M:%S" if self._colour else "%Y-%m-%d %H:%M:%S") + f",{int(record.msecs):03}"
        level = f"{record.levelname:<7}"
        if self._colour and (code := _COLOURS.get(record.levelno)) is not None:
            level = f"\x1b[{code}m{level}\x1b[0m"
        message = _CONTROL.sub(_escaped, without_secrets(record.getMessage()))
        line = f"{when} {level} {self._who}{record.name}: {message}"
        trace = _trace_of(self, record)
        return f"{line}\n{trace}" if trace else line


class JsonFormatter(logging.Formatter):
    def __init__(self, node_id: int | None) -> None:
        super().__init__()
        self._fixed = {} if node_id is None else {"node_id": node_id}

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        told: dict[str, object] = {
            "time": at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(record.msecs):03}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
            **self._fixed,
        }
        for name, value in vars(record).items():
            if name not in _STANDARD and not name.startswith("_"):
                told[name] = _plain(value)
        if trace := _trace_of(self, record):
            told["trace"] = trace
        return json.dumps(told, default=str)


def _trace_of(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    lines = without_secrets("\n".join(parts)).split("\n")
    return "\n".join(_INDENT + _CONTROL.sub(_escaped, line) for line in lines) if parts else ""


def _plain(value: object) -> object:
    """For JSON, with nothing in it that looks like a secret."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, int | float | None) else without_secrets(str(value))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
