"""Kafka's error codes, and the exception for what a user or a client did wrong."""

from kio.schema.errors import ErrorCode

__all__ = ["ErrorCode", "KafkaError", "OttlaError"]


class OttlaError(Exception):
    """Something a person must act on: says what happened, where, and what to do. Printed without a traceback."""


class KafkaError(Exception):
    """A request that ends in one of Kafka's error codes."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name.upper())
        self.code = code
        self.message = message
