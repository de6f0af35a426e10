"""Encoded answers to the same question: many clients ask for the same metadata, and it seldom changes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.model.errors import ErrorCode

_MAX_ENTRIES: Final = 256
_MAX_BYTES: Final = 4 * 1024 * 1024


class Encoded(NamedTuple):
    data: bytes
    errors: tuple[ErrorCode, ...]  # that are in it: they count each time it is given


class AnswerCache:
    """Valid for one image: with the next one all is forgotten. A full one begins anew."""

    def __init__(self) -> None:
        self._image: MetadataImage = EMPTY_IMAGE
        self._answers: dict[Hashable, Encoded] = {}
        self._bytes = 0

    def get(self, image: MetadataImage, question: Hashable) -> Encoded | None:
        return self._answers.get(question) if image is self._image else None

    def put(self, image: MetadataImage, question: Hashable, question_bytes: int, answer: Encoded) -> None:
        size = len(answer.data) + question_bytes
        if size > _MAX_BYTES:
            return
        if image is not self._image or len(self._answers) >= _MAX_ENTRIES or self._bytes + size > _MAX_BYTES:
            self._image = image
            self._answers.clear()
            self._bytes = 0
        self._answers[question] = answer
        self._bytes += size
