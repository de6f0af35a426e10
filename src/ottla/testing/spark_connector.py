"""Spark's official connector for Kafka, brought by Maven as jars: the peer of `format("ottla")`.

They are kept in the folder named by OTTLA_SPARK_CONNECTOR, or in `ottla/spark-connector` under the user's cache folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

_JARS: Final = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.1"),
)
_DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
)
_POM: Final = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla.testing</groupId><artifactId>spark-connector</artifactId><version>1</version>
  <dependencies>{}</dependencies>
</project>
"""


class ConnectorUnavailable(RuntimeError):
    """Maven or the jars are missing; the message says what to do."""


def connector_jars() -> list[Path]:
    """Where they are, if they are there: see `available`."""
    return [_home() / f"{name}-{version}.jar" for _, name, version in _JARS]


def available() -> bool:
    """Whether the connector can be had without a download: for tests that are skipped otherwise."""
    return all(jar.exists() for jar in connector_jars())


def bring_connector() -> list[Path]:
    """The jars, fetched once."""
    if available():
        return connector_jars()
    home = _home()
    if shutil.which("mvn") is None:
        raise ConnectorUnavailable(f"the jars of Spark's Kafka connector are not in {home}, and there is no `mvn`")
    home.mkdir(parents=True, exist_ok=True)
    (home / "pom.xml").write_text(_POM.format("".join(_DEPENDENCY.format(*jar) for jar in _JARS)))
    copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DexcludeTransitive=true", f"-DoutputDirectory={home}"]
    done = subprocess.run(copy, cwd=home, capture_output=True, text=True, check=False)
    if done.returncode or not available():
        raise ConnectorUnavailable(f"Maven could not bring Spark's Kafka connector:\n{done.stdout[-2000:]}")
    return connector_jars()


def _home() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("OTTLA_SPARK_CONNECTOR") or cache / "ottla" / "spark-connector")
