"""What Apache Kafka did with each request of the corpus, in one small file for each API.

Cases have their whole outcome. Mutations have a class each, as a number in a table; what was sent is made anew from the
seed, and digests tell when it is not the same any more. Mutations that must not be sent are listed, so that the corpus
does not depend on who can read them.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final
from zlib import crc32

FOLDER: Final = Path(__file__).parent / "recorded"
_FRAMES: Final = FOLDER / "frames.json.xz"
BLOCK: Final = 50  # mutations that share a digest
UNSTEADY: Final = "unsteady"  # Apache Kafka itself did different things at different times


@dataclass(slots=True)
class Version:
    """`cases`: name, digest of the body, number of its outcome. `mutations`: numbers of classes, in their order."""

    cases: list[tuple[str, str, int]] = field(default_factory=list)
    mutations: list[int] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)  # places in the sequence of mutations
    digests: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Recording:
    api: str
    key: int
    kafka: str
    outcomes: list[Any] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    versions: dict[int, Version] = field(default_factory=dict)

    def outcome_number(self, outcome: Any) -> int:
        if outcome not in self.outcomes:
            self.outcomes.append(outcome)
        return self.outcomes.index(outcome)

    def class_number(self, name: str) -> int:
        if name not in self.classes:
            self.classes.append(name)
        return self.classes.index(name)

    def store(self) -> None:
        FOLDER.mkdir(exist_ok=True)
        text = json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))
        _file(self.api).write_bytes(lzma.compress(text.encode(), preset=9))

    @classmethod
    def load(cls, api: str) -> Recording:
        data = json.loads(lzma.decompress(_file(api).read_bytes()))
        versions = {int(number): Version(**version) for number, version in data.pop("versions").items()}
        return cls(**data, versions=versions)


def store_frames(outcomes: list[tuple[str, str, str]]) -> None:
    """Name, digest of the bytes, outcome."""
    FOLDER.mkdir(exist_ok=True)
    _FRAMES.write_bytes(lzma.compress(json.dumps(outcomes).encode(), preset=9))


def load_frames() -> list[tuple[str, str, str]]:
    return [(name, digest, outcome) for name, digest, outcome in json.loads(lzma.decompress(_FRAMES.read_bytes()))]


def recorded() -> list[str]:
    """Names of the APIs that there are recordings of."""
    return sorted(path.name.removesuffix(".json.xz") for path in FOLDER.glob("[A-Z]*.json.xz"))


def digest(bodies: list[bytes]) -> str:
    return f"{crc32(b'|'.join(bodies)):08x}"


def _file(api: str) -> Path:
    return FOLDER / f"{api}.json.xz"
