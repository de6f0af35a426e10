"""`ottla produce` and `ottla consume` against a running node."""

import signal
import subprocess
from pathlib import Path

import pytest
from tests.cli.command import OTTLA, Run, new_topic_name, run_ottla
from tests.waiting import PATIENCE_S, attempts

from ottla.testing.apache_kafka import ApacheKafka


@pytest.fixture
def topic(ottla: Run, request: pytest.FixtureRequest) -> str:
    name = new_topic_name(request.node.name)
    assert ottla("topic", "create", name, "-p", "2").returncode == 0
    return name


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
    assert ottla("consume", topic, "-p", "0", "-o", "end", "-e").stdout == ""
    assert ottla("consume", topic, "-p", "0", "-e", "-n", "2").stdout == "0\n1\n"  # from the beginning


def test_an_offset_that_is_not_there_is_told(ottla: Run, topic: str) -> None:
    ottla("produce", topic, "-p", "0", *map(str, range(10)))
    ottla("topic", "purge", topic, "-p", "0", "--before-offset", "4", "--yes")
    early = ottla("consume", topic, "-p", "0", "-o", "1", "-e")
    assert early.stdout.split() == ["4", "5", "6", "7", "8", "9"]
    assert early.stderr == f"{topic}-0 has offsets 4 to 9: reading it from its beginning.\n"
    late = ottla("consume", topic, "-p", "0", "-o", "11", "-e")
    assert late.stdout == "" and "reading it from its end." in late.stderr
    assert ottla("consume", topic, "-p", "0", "-o", "10", "-e").stderr == ""


def test_reading_by_time(ottla: Run, topic: str) -> None:
    lines = "".join(f'{{"payload":"{i}","ts":{1_700_000_000_000 + i * 1000},"partition":{i % 2}}}\n' for i in range(10))
    assert ottla("produce", topic, "-J", stdin=lines).returncode == 0

    def read(*args: str) -> list[str]:
        done = ottla("consume", topic, *args)
        assert done.returncode == 0, done.stderr
        return sorted(done.stdout.split())

    assert read("--from-time", "1700000007", "-e") == ["7", "8", "9"]
    assert read("-o", "s@1700000002000", "-o", "e@1700000005000") == ["2", "3", "4"]
    assert read("--from-beginning", "--until", "2023-11-14T22:13:22Z") == ["0", "1"]
    assert read("--from-beginning", "--until", "5m ago") == [str(i) for i in range(10)]
    assert read("--from-time", "5m ago", "-e") == []


def test_several_topics_are_read_at_once(ottla: Run, topic: str) -> None:
    ottla("topic", "create", f"{topic}2")
    ottla("produce", topic, "a")
    ottla("produce", f"{topic}2", "b")
    read = ottla("consume", topic, f"{topic}2", "-o", "beginning", "-e", "-f", r"%t=%s\n").stdout
    assert sorted(read.split()) == [f"{topic}2=b", f"{topic}=a"]


def test_json_is_read_back_as_it_was_written(ottla: Run, topic: str) -> None:
    lines = (
        f'{{"topic":"{topic}","partition":0,"offset":0,"tstype":"create","ts":5,"headers":["h","x"],"key":"ä","payload":"v"}}\n'
        f'{{"topic":"{topic}","partition":0,"offset":1,"tstype":"create","ts":6,"key":null,"payload":null}}\n'
        f'{{"topic":"{topic}","partition":0,"offset":2,"tstype":"create","ts":7,"key":null,"payload":"/w==","payload_encoding":"base64"}}\n'
    )
    assert ottla("produce", topic, "--json", stdin=lines).returncode == 0
    assert ottla("consume", topic, "--from-beginning", "-c", "3", "-J").stdout == lines


def test_a_line_without_the_separator_stops_there(ottla: Run, topic: str) -> None:
    refused = ottla("produce", topic, "-k", ":", stdin="a:1\nb:2\nc\nd:4\n")
    assert refused.returncode == 1
    assert refused.stderr == (
        "ottla: line 3 has no ':' between key and value: 'c'. 2 records before it written, none after it.\n"
    )
    assert sorted(ottla("consume", topic, "-o", "beginning", "-e", "-f", "%k ").stdout.split()) == ["a", "b"]


def test_tombstones_files_and_whole_inputs(ottla: Run, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("one\ntwo\n")
    assert (
        ottla("produce", topic, "-p", "0", "-i", str(file), "--key", "k", "--timestamp", "1700000000").returncode == 0
    )
    assert ottla("produce", topic, "-p", "0", "--tombstone", "x", "y").returncode == 0
    assert ottla("produce", topic, "-p", "0", "--whole", stdin="several\nlines\n").returncode == 0
    read = ottla("consume", topic, "-p", "0", "-o", "0", "-n", "5", "-Z", "-f", "%k:%s:%T;").stdout.split(";")
    assert read[:2] == ["k:one:1700000000000", "k:two:1700000000000"]
    assert [record.rpartition(":")[0] for record in read[2:5]] == ["x:NULL", "y:NULL", "NULL:several\nlines\n"]


def test_ctrl_c_ends_reading_without_a_word(ottla: Run, topic: str, node: str) -> None:
    ottla("produce", topic, "x")
    process = subprocess.Popen(
        [*OTTLA, "consume", topic, "--from-beginning", "-b", node],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "x\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, "", "")


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
    ottla("produce", topic, stdin="".join(f"{i:0>500}\n" for i in range(2000)))
    command = f"{' '.join(OTTLA)} consume {topic} --from-beginning -e -b {node} | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("where", ["node", pytest.param("kafka", marks=pytest.mark.kafka)])
def test_reading_goes_on_where_a_group_is_and_commits_nothing(request: pytest.FixtureRequest, where: str) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    found = request.getfixturevalue(where)
    address = found.bootstrap if isinstance(found, ApacheKafka) else found

    def run(*args: str) -> str:
        done = run_ottla(*args, address=address)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("topic", "create", "grouped")
    run("produce", "grouped", "a", "b", "c")
    consumer = Consumer({"bootstrap.servers": address, "group.id": "billing"})
    for _ in attempts("the coordinator is there"):
        try:
            consumer.commit(offsets=[TopicPartition("grouped", 0, 1)], asynchronous=False)
            break
        except KafkaException:
            pass
    for _ in range(2):
        assert run("consume", "grouped", "-o", "stored", "-g", "billing", "-e") == "b\nc\n"
    consumer.close()


def test_a_group_must_be_named_for_its_offsets(ottla: Run, topic: str) -> None:
    refused = ottla("consume", topic, "-o", "stored")
    assert refused.returncode == 2 and "-o stored needs --group" in refused.stderr
