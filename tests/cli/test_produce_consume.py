"""`ottla produce` and `ottla consume` against a running node."""

import pytest
from tests.cli.command import Run


@pytest.fixture
def topic(ottla: Run, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "")[:100]
    assert ottla("topic", "create", name, "-p", "2").returncode == 0
    return str(name)


def test_lines_are_written_and_read_back(ottla: Run, topic: str) -> None:
    written = ottla("produce", topic, "-p", "0", stdin="one\ntwo\r\n\nthree")
    assert (written.returncode, written.stdout, written.stderr) == (0, "", "")
    read = ottla("consume", topic, "--from-beginning", "-e")
    assert (read.returncode, read.stdout, read.stderr) == (0, "one\ntwo\n\nthree\n", "")


def test_keys_go_where_javas_partitioner_puts_them(ottla: Run, topic: str) -> None:
    # murmur2 of k1..k5, modulo 2, as Apache Kafka's Java producer places them
    lines = "".join(f"k{i}=v{i}\n" for i in range(1, 6))
    assert ottla("produce", topic, "-k", "=", stdin=lines).returncode == 0
    read = ottla("consume", topic, "-o", "beginning", "-e", "-f", r"%k:%p\n").stdout
    assert sorted(read.split()) == ["k1:1", "k2:1", "k3:0", "k4:0", "k5:0"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_headers_nulls_and_codecs(ottla: Run, topic: str, codec: str) -> None:
    sent = ottla("produce", topic, "k:v", "k:", "-k", ":", "-Z", "-H", "a=b=c", "-z", codec, "-p", "1")
    assert sent.returncode == 0, sent.stderr
    read = ottla("consume", topic, "-p", "1", "-o", "0", "-n", "2", "-f", r"%p/%o %k %S [%h]\n")
    assert read.stdout == "1/0 k 1 [a=b=c]\n1/1 k -1 [a=b=c]\n"


def test_reading_starts_and_ends_where_told(ottla: Run, topic: str) -> None:
    ottla("produce", topic, "-p", "0", stdin="".join(f"{i}\n" for i in range(10)))
    assert ottla("consume", topic, "-p", "0", "-o", "-3", "-e").stdout == "7\n8\n9\n"
    assert ottla("consume", topic, "-p", "0", "-o", "4", "-n", "2").stdout == "4\n5\n"
    assert ottla("consume", topic, "-p", "0", "-e").stdout == ""  # from the end


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_works(ottla: Run, topic: str, acks: str) -> None:
    assert ottla("produce", topic, "x", "--acks", acks).returncode == 0
    assert ottla("consume", topic, "-o", "beginning", "-n", "1").stdout == "x\n"


def test_what_cannot_be_done_is_told_in_one_line(ottla: Run, topic: str) -> None:
    for args, message in (
        (["consume", "nope", "-e"], "topic nope is not there; `ottla topic create nope` makes it"),
        (["consume", topic, "-p", "7"], f"topic {topic} has no partition 7, only 0 to 1"),
        (["produce", topic, "x", "-X", "no.such=1"], 'No such configuration property: "no.such"'),
        (["produce", topic, "x", "-p", "9"], "Unknown partition"),
    ):
        refused = ottla(*args)
        assert refused.returncode == 1
        assert message in refused.stderr and refused.stderr.count("\n") == 1


def test_a_reader_that_leaves_early_is_no_error(ottla: Run, topic: str, node: str) -> None:
    import subprocess

    from tests.cli.command import OTTLA

    ottla("produce", topic, stdin="".join(f"{i:0>500}\n" for i in range(2000)))
    command = f"{' '.join(OTTLA)} consume {topic} --from-beginning -e -b {node} | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
