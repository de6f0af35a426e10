"""Spark's Java classes as an archive of Java's own (class data sharing): half of a start goes into reading, checking
and linking ten thousand of them.

It is below the user's cache, some 170 MB, one for each Java and Spark. Java writes it when it ends, which takes a
while: nobody waits for it. Its head comes last, so that one that is not whole is known by that; Java leaves alone what
does not fit.
"""

from __future__ import annotations

import os
import time
from hashlib import sha256
from pathlib import Path
from typing import Final

_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
_WRITTEN_WITHIN_S: Final = 300.0


class ClassArchive:
    def __init__(self, java: Path) -> None:
        """`java` is JAVA_HOME."""
        import pyspark

        release = java / "release"
        about = [java, release.read_text() if release.exists() else "", pyspark.__file__, pyspark.__version__]
        name = sha256("\0".join(map(str, about)).encode()).hexdigest()[:12]
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.file = cache / "ottla" / f"spark-{name}-{os.getuid()}.jsa"

    @property
    def is_whole(self) -> bool:
        try:
            with self.file.open("rb") as file:
                return any(file.read(4))
        except OSError:
            return False

    def using(self) -> str:
        """Java's options; none where there is no archive."""
        return f"-XX:SharedArchiveFile={self.file} -Xshare:auto {_QUIET}" if self.is_whole else ""

    def making(self) -> str:
        """The same, or those of a Java that makes it. What it has verified nobody needs to verify again."""
        if self.is_whole or not self._can_be_made():
            return self.using()
        return f"-XX:ArchiveClassesAtExit={self.file} -XX:+BytecodeVerificationRemote {_QUIET}"

    def _can_be_made(self) -> bool:
        """Not if somebody else is about to."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            if self.file.exists() and time.time() - self.file.stat().st_mtime < _WRITTEN_WITHIN_S:
                return False
        except OSError:
            return False
        return os.access(self.file.parent, os.W_OK) and " " not in str(self.file)
