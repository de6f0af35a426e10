"""Spark's Java classes as an archive of Java's own (class data sharing): half of a start goes into reading, checking
and linking ten thousand of them.

It is below the user's cache, some 170 MB, one for each Java and Spark. Java writes it when it ends, so that it is made
by a run that has nothing else to do then. One that does not fit, Java leaves alone.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
_ENDS_WITHIN_S: Final = 60


class ClassArchive:
    def __init__(self, java: Path) -> None:
        """`java` is JAVA_HOME."""
        import pyspark

        release = java / "release"
        about = [java, release.read_text() if release.exists() else "", pyspark.__file__, pyspark.__version__]
        name = sha256("\0".join(map(str, about)).encode()).hexdigest()[:12]
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.file = cache / "ottla" / f"spark-{name}-{os.getuid()}.jsa"
        self._new = self.file.with_suffix(f".{os.getpid()}.new")

    @property
    def is_there(self) -> bool:
        return self.file.exists()

    def using(self) -> str:
        """Java's options; none where there is no archive."""
        return f"-XX:SharedArchiveFile={self.file} -Xshare:auto {_QUIET}" if self.is_there else ""

    def making(self) -> str:
        """The same, or those of a Java that makes it. What it has verified nobody needs to verify again."""
        if self.is_there or not self._can_be_made():
            return self.using()
        return f"-XX:ArchiveClassesAtExit={self._new} -XX:+BytecodeVerificationRemote {_QUIET}"

    def _can_be_made(self) -> bool:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return False
        return os.access(self.file.parent, os.W_OK) and " " not in str(self.file)

    def keep(self, session: Any) -> None:
        """Ends a Spark that was started to make it, and waits for what it writes."""
        from pyspark import SparkContext

        gateway = session.sparkContext._gateway
        session.stop()
        if self.is_there or getattr(gateway, "proc", None) is None:
            return
        gateway.shutdown()
        gateway.proc.stdin.close()
        SparkContext._gateway = SparkContext._jvm = None
        try:
            gateway.proc.wait(_ENDS_WITHIN_S)
            if self._new.exists():
                self._new.replace(self.file)
        except Exception:
            self._new.unlink(missing_ok=True)
