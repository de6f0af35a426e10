"""What ApiVersions says about features: the levels that this node could run with, and those the cluster runs with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.metadata.controller.features import KRAFT_VERSION
from ottla.metadata.image import MetadataImage, VersionRange


def supported_features(supported: Mapping[str, VersionRange], *, with_level_zero: bool) -> list[dict[str, Any]]:
    """KAFKA-17011: clients that ask below version 4 cannot read a feature whose lowest level is 0."""
    return [
        {"name": name, "min_version": levels.low, "max_version": levels.high}
        for name, levels in supported.items()
        if with_level_zero or levels.low > 0
    ]


def finalized_features(image: MetadataImage, kraft_version: int) -> list[dict[str, Any]]:
    """kraft.version is the quorum's own: its log has it, the image has not."""
    return [
        {"name": name, "min_version_level": level, "max_version_level": level}
        for name, level in {**image.features, KRAFT_VERSION: kraft_version}.items()
        if level > 0
    ]
