"""The folder of a pipeline: Spark's checkpoints, which run of them counts, who runs it now, and how it is doing.

pipeline.json     the generation, where it began, and what its state was made by
GENERATION/VIEW/  the checkpoint of one of Spark's queries
sources/          what sources remember
lock              held by whoever runs it
status.json       written by whoever runs it
stop              asks him to stop
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ottla.model.errors import OttlaError

_KEPT, _STATUS, _STOP, _LOCK = "pipeline.json", "status.json", "stop", "lock"
DEFAULT_START: Final = ""
WAY_OUT: Final = (
    "Undo the change, give the pipeline another name, or begin anew with `ottla pipeline replay FILE --from earliest` "
    "(or latest, or a time): what was written stays, and is written again from there on"
)


@dataclass(frozen=True, slots=True)
class Kept:
    generation: int = 0
    start: str = DEFAULT_START
    """Where topics are read from instead of what the spec says; of `replay --from`."""
    parts: Mapping[str, list[str]] = field(default_factory=dict)
    """Of each query: its sources and stateful operators, in words."""


def folder_of(name: str, given: str | None, spec_folder: Path) -> Path:
    """Where a spec or a command says, or under the user's state folder."""
    if given is not None:
        return (spec_folder / given).resolve()
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "ottla" / "pipelines" / name


class Checkpoint:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def kept(self) -> Kept:
        found = _read(self.folder / _KEPT)
        return Kept() if found is None else Kept(**found)

    def keep(self, kept: Kept) -> None:
        _write(self.folder / _KEPT, asdict(kept))

    @property
    def work(self) -> Path:
        """For sources, by generation: what they remember goes with the offsets."""
        return self.folder / "sources" / str(self.kept.generation)

    def of_query(self, view: str) -> Path:
        return self.folder / str(self.kept.generation) / view

    @contextmanager
    def held(self) -> Iterator[None]:
        """OttlaError if somebody else runs the pipeline."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                status = self.status() or {}
                raise OttlaError(
                    f"the pipeline runs already (process {status.get('pid', '?')} on {status.get('host', '?')}); "
                    "`ottla pipeline stop` ends it"
                ) from None
            yield
        finally:
            os.close(descriptor)

    @property
    def is_held(self) -> bool:
        try:
            descriptor = os.open(self.folder / _LOCK, os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    # -- status, and being asked to stop

    def tell(self, status: Mapping[str, Any]) -> None:
        _write(self.folder / _STATUS, status)

    def status(self) -> dict[str, Any] | None:
        """What was told last; `state` is lost if whoever told it is no longer there."""
        found = _read(self.folder / _STATUS)
        if found is not None and found.get("state") in ("starting", "running", "stopping") and not self.is_held:
            found["state"] = "lost"
        return found

    def ask_to_stop(self) -> None:
        (self.folder / _STOP).touch()

    @property
    def is_asked_to_stop(self) -> bool:
        return (self.folder / _STOP).exists()

    def forget_to_stop(self) -> None:
        (self.folder / _STOP).unlink(missing_ok=True)

    # -- beginning anew, and changes

    def begin_anew(self, start: str) -> Kept:
        """The next run starts without state, at `start`. Old generations stay until they are deleted by hand."""
        before = self.kept
        now = Kept(before.generation + 1, start)
        self.keep(now)
        return now

    def admit(self, parts: Mapping[str, list[str]]) -> None:
        """OttlaError if what is to run now could not go on with the state and offsets that are there."""
        kept = self.kept
        for view, now in parts.items():
            before = kept.parts.get(view)
            if before is not None and before != now and (self.of_query(view) / "offsets").exists():
                raise OttlaError(_refusal(view, before, now))
        self.keep(replace(kept, parts={**kept.parts, **parts}))


def _refusal(view: str, before: list[str], now: list[str]) -> str:
    gone, new = list((Counter(before) - Counter(now)).elements()), list((Counter(now) - Counter(before)).elements())
    lines = [f"{view} has changed so that it could not go on with the offsets and the state that it has:"]
    lines += [f"  was: {part}" for part in gone] + [f"  is:  {part}" for part in new]
    if not gone and not new:
        lines.append("  its parts come in another order now")
    lines.append(WAY_OUT)
    return "\n".join(lines)


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise OttlaError(f"{file} is not what it should be: {error}") from None
    assert isinstance(found, dict)
    return found


def _write(file: Path, what: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(f".{os.getpid()}.new")
    new.write_text(json.dumps(what, indent=1))
    new.replace(file)
