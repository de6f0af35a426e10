"""Kafka's error codes, and the exception for what a user or a client did wrong."""

import sys

# kio builds test strategies when hypothesis can be imported: 160 ms and 20 MB that only its own tests have a use for.
_hidden = [name for name in ("hypothesis", "hypothesis.strategies") if name not in sys.modules]
sys.modules.update(dict.fromkeys(_hidden))  # type: ignore[arg-type]  # None makes an import fail
import kio.static._phantom  # noqa: E402, F401

for _name in _hidden:
    del sys.modules[_name]

from kio.schema.errors import ErrorCode  # noqa: E402

__all__ = ["ErrorCode", "KafkaError", "OttlaError"]


class OttlaError(Exception):
    """Something a person must act on: says what happened, where, and what to do. Printed without a traceback."""


class KafkaError(Exception):
    """A request that ends in one of Kafka's error codes."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name.upper())
        self.code = code
        self.message = message
