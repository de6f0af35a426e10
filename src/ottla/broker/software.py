"""What a build can do: the levels of features that it supports, and the versions of APIs that it offers.

There is one build in a process, `THIS`; a simulated cluster also has nodes of earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.broker.context import Api
from ottla.metadata.controller.features import SUPPORTED
from ottla.metadata.image import VersionRange


@dataclass(frozen=True, slots=True)
class Software:
    features: Mapping[str, VersionRange]
    newest: Mapping[int, int] = field(default_factory=dict)
    """Of APIs, by key, where that is not the newest there is."""

    def offered(self, apis: Iterable[Api]) -> list[Api]:
        return [replace(api, newest=self.newest[api.key]) if api.key in self.newest else api for api in apis]


THIS: Final = Software(SUPPORTED)
