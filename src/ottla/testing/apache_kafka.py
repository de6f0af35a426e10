"""Apache Kafka itself, started from its Maven jars: the peer in benches and the oracle for files and behaviour.

Needs `java`; `mvn` too, once, to bring the jars. They are kept in the folder named by OTTLA_KAFKA_HOME, or in
`ottla/kafka-VERSION` under the user's cache folder.

    node = ApacheKafka.start(folder, 29092, num_partitions=4)      # formats the storage on the first start
    node.stop()                                                    # or node.kill(), for kill -9
    dump_log_segments(folder / "data" / "orders-0" / "00000000000000000000.log")
"""

from __future__ import annotations

import base64
import os
import random
import shutil
import signal
import socket
import subprocess
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

KAFKA_VERSION = "4.3.0"
Setting = str | int | float | bool

# The defaults of Kafka's own kafka-server-start.sh and kafka-run-class.sh.
_JVM_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_NODE_HEAP = ("-Xmx1G", "-Xms1G")
_TOOL_HEAP = ("-Xmx256M",)

_POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla.testing</groupId><artifactId>apache-kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{v}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{v}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""


class ApacheKafkaUnavailableError(RuntimeError):
    """Java, Maven or the jars are missing; the message says which and what to do."""


def kafka_home() -> Path:
    """The folder of the jars; nothing is brought into it yet."""
    named = os.environ.get("OTTLA_KAFKA_HOME")
    if named:
        return Path(named).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "ottla" / f"kafka-{KAFKA_VERSION}"


def bring_jars() -> Path:
    """The folder of the jars, filled by Maven if it is empty."""
    if shutil.which("java") is None:
        raise ApacheKafkaUnavailableError("Apache Kafka needs `java` (17 or newer) on the PATH: install a JRE")
    home = kafka_home()
    if _has_jars(home):
        return home
    if shutil.which("mvn") is None:
        raise ApacheKafkaUnavailableError(
            f"Apache Kafka's jars are not in {home} and `mvn` is not on the PATH: install Maven, "
            "or point OTTLA_KAFKA_HOME at a folder that holds Kafka's jars (the libs/ folder of a release will do)"
        )
    # Maven fills a folder of this process's own and a rename publishes it, so that two first runs do not meet.
    home.parent.mkdir(parents=True, exist_ok=True)
    staging = home.with_name(f"{home.name}.{os.getpid()}")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    (staging / "pom.xml").write_text(_POM.format(v=KAFKA_VERSION))
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={staging}"]
    done = subprocess.run(command, cwd=staging, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not _has_jars(staging):
        shutil.rmtree(staging, ignore_errors=True)
        raise ApacheKafkaUnavailableError(
            f"Maven could not bring Apache Kafka {KAFKA_VERSION}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    if home.is_dir() and not any(home.iterdir()):
        home.rmdir()
    try:
        staging.rename(home)
    except OSError:
        shutil.rmtree(staging, ignore_errors=True)
        if not _has_jars(home):
            raise
    return home


def available() -> bool:
    """Whether nodes can be started without a download: for tests that are skipped otherwise."""
    return shutil.which("java") is not None and _has_jars(kafka_home())


def tool(
    class_name: str, *args: str, timeout: float = 120.0, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs one of Kafka's tools, e.g. `tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", ...)`."""
    return subprocess.run(
        _java(class_name, *args, heap=_TOOL_HEAP),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def dump_log_segments(
    *files: Path, deep: bool = True, index_sanity_check: bool = False, print_data: bool = False, timeout: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """DumpLogSegments over logs, indexes or snapshots. The sanity check of indexes takes the place of listing them."""
    args = ["--files", ",".join(str(file) for file in files)]
    if deep:
        args.append("--deep-iteration")
    if index_sanity_check:
        args.append("--index-sanity-check")
    if print_data:
        args.append("--print-data-log")
    return tool("org.apache.kafka.tools.DumpLogSegments", *args, timeout=timeout)


PORTS = range(20000, 32000)
"""Where free ports are looked for; tests that run side by side have different ones."""
_not_given_yet: list[int] = []


def free_port() -> int:
    """A port that nobody listens on, below the range from which the kernel gives clients theirs.

    Polling a port inside that range until a node opens it can connect the poller to itself, and then the node finds its
    port taken.
    """
    while True:
        if not _not_given_yet:  # none is given twice before all were: those who asked need not have taken theirs yet
            _not_given_yet.extend(random.sample(PORTS, len(PORTS)))
        port = _not_given_yet.pop()
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@dataclass(slots=True)
class ApacheKafka:
    """One node with both roles on the loopback: its data in `directory/data`, its output in `directory/kafka.out`."""

    directory: Path
    port: int
    process: subprocess.Popen[bytes]

    @classmethod
    def start(
        cls, directory: Path, port: int, *, wait: bool = True, cluster_id: str | None = None, **settings: Setting
    ) -> ApacheKafka:
        """Starts a node, formatting its storage if that was not done. A setting's `_` stands for `.`.

        Without `wait` it returns as soon as the process exists: for measuring how long the rest takes.
        """
        if listening(port):
            # Otherwise the wait below would take the other process for this node, and the caller would write to it.
            raise RuntimeError(f"port {port} is taken by another process: give Apache Kafka a free one")
        format_storage(directory, port, cluster_id, **settings)
        with (directory / "kafka.out").open("ab") as output:
            process = subprocess.Popen(
                _java("kafka.Kafka", str(directory / "server.properties"), heap=_NODE_HEAP),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in a terminal is for the caller, which then stops its nodes
            )
        node = cls(directory, port, process)
        if wait:
            node.wait_until_listening()
        return node

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def wait_until_listening(self, timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(
                    f"Apache Kafka on port {self.port} ended with {self.process.returncode} while it started:\n"
                    f"{self.output()[-3000:]}"
                )
            if listening(self.port):
                return
            time.sleep(0.02)
        self.kill()
        raise TimeoutError(f"Apache Kafka on port {self.port} did not listen within {timeout:.0f} s")

    def output(self) -> str:
        return (self.directory / "kafka.out").read_text(errors="replace")

    def stop(self, timeout: float = 60.0) -> None:
        """A clean stop: logs are flushed, producer snapshots and the clean-shutdown mark written."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"Apache Kafka on port {self.port} did not stop within {timeout:.0f} s") from None

    def kill(self) -> None:
        """kill -9: what the page cache holds survives, nothing is flushed or marked."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def format_storage(directory: Path, port: int, cluster_id: str | None = None, **settings: Setting) -> None:
    """Writes server.properties; formats the storage if it has no meta.properties. Safe to repeat."""
    directory.mkdir(parents=True, exist_ok=True)
    properties = directory / "server.properties"
    properties.write_text(server_properties(directory, port, **settings))
    if (directory / "data" / "meta.properties").exists():
        return
    cluster_id = cluster_id or random_cluster_id()
    done = tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties))
    if done.returncode != 0:
        raise RuntimeError(f"Apache Kafka could not format {directory / 'data'}:\n{done.stdout}{done.stderr}")


def random_cluster_id() -> str:
    """Like Kafka's own, never one that begins with `-`: on a command line that would be an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        continue
    return text


def server_properties(directory: Path, port: int, **settings: Setting) -> str:
    """The text of a server.properties for one node with both roles; its data goes to `directory/data`."""
    while (controller_port := free_port()) == port:
        continue
    values: dict[str, Setting] = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(directory / "data"),
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    return "".join(f"{name}={_property(value)}\n" for name, value in values.items())


def _property(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _java(class_name: str, *args: str, heap: tuple[str, ...]) -> list[str]:
    return ["java", *heap, *_JVM_FLAGS, "-cp", f"{bring_jars()}/*", class_name, *args]


def _has_jars(home: Path) -> bool:
    return any(home.glob("kafka_2.13-*.jar")) and any(home.glob("kafka-tools-*.jar"))
