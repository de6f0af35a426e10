"""`ottla group reset` and `seek`: the same offsets as kafka-consumer-groups.sh, on a node and on Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.command import Run, new_topic_name
from tests.cli.grouping import make_topic, offsets, rows

from ottla.testing.apache_kafka import ApacheKafka, tool

# name, arguments; partitions have 10, 20 and 0 records, the first begins at 3, and 4 is committed in the first two
SCENARIOS = {
    "earliest": (["--to-earliest"], {0: 3, 1: 0, 2: 0}),
    "latest": (["--to-latest"], {0: 10, 1: 20, 2: 0}),
    "current": (["--to-current"], {0: 4, 1: 4, 2: 0}),
    "offset": (["--to-offset", "7"], {0: 7, 1: 7, 2: 0}),
    "offset beyond": (["--to-offset", "15"], {0: 10, 1: 15, 2: 0}),
    "offset before": (["--to-offset", "1"], {0: 3, 1: 1, 2: 0}),
    "time": (["--to-datetime", "2023-11-14T22:13:26.500Z"], {0: 7, 1: 7, 2: 0}),
    "time too young": (["--to-datetime", "2023-11-14T22:13:33.000Z"], {0: 10, 1: 13, 2: 0}),
    "duration": (["--by-duration", "PT1H"], {0: 10, 1: 20, 2: 0}),
    "long duration": (["--by-duration", "P10000D"], {0: 3, 1: 0, 2: 0}),
}
SHIFTS = {
    "forward": (["--shift-by", "3"], {0: 7, 1: 7}),
    "backward": (["--shift-by", "-2"], {0: 3, 1: 2}),
    "beyond": (["--shift-by", "10"], {0: 10, 1: 14}),
    "far back": (["--shift-by", "-100"], {0: 3, 1: 0}),
    "all earliest": (["--to-earliest"], {0: 3, 1: 0}),
}


def prepare(run: Run, name: str) -> tuple[str, str]:
    topic = make_topic(run, new_topic_name(name), 10, 20, 0)
    assert run("topic", "purge", topic, "-p", "0", "--before-offset", "3", "--yes").returncode == 0
    group = f"{topic}-group"
    for partition in ("0", "1"):
        ready(run, group, topic, partition)
    return topic, group


def ready(run: Run, group: str, topic: str, partition: str) -> None:
    done = run("group", "reset", group, "--topic", f"{topic}:{partition}", "--to-offset", "4", "--execute")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios_of_a_topic(anywhere: Run, name: str) -> None:
    args, wanted = SCENARIOS[name]
    topic, group = prepare(anywhere, name)
    planned = anywhere("group", "reset", group, "--topic", topic, *args)
    assert planned.returncode == 0, planned.stderr
    assert {int(line.split("\t")[2]): int(line.split("\t")[4]) for line in planned.stdout.splitlines()} == wanted
    assert offsets(anywhere, group) == {topic: {0: 4, 1: 4}}  # it was only shown
    anywhere("group", "reset", group, "--topic", topic, *args, "--execute")
    assert offsets(anywhere, group) == {topic: wanted}


@pytest.mark.parametrize("name", SHIFTS)
def test_scenarios_of_all_that_is_committed(anywhere: Run, name: str) -> None:
    args, wanted = SHIFTS[name]
    topic, group = prepare(anywhere, name)
    done = anywhere("group", "reset", group, "--all-topics", *args, "--execute")
    assert done.returncode == 0, done.stderr
    assert offsets(anywhere, group) == {topic: wanted}


@pytest.mark.kafka
@pytest.mark.parametrize("name", [*SCENARIOS, *SHIFTS])
def test_kafkas_tool_finds_the_same_offsets(kafka: ApacheKafka, name: str) -> None:
    from tests.cli.conftest import runner

    run = runner(kafka.bootstrap)
    args, wanted = SCENARIOS.get(name) or SHIFTS[name]
    topic, group = prepare(run, f"tool-{name}")
    scope = ["--topic", topic] if name in SCENARIOS else ["--all-topics"]
    told = kafka_tool(kafka, "--reset-offsets", "--group", group, *scope, *args, "--execute", "--export")
    found = {}
    for line in told.splitlines():
        cells = line.strip().strip('"').split(",")
        if len(cells) == 3 and cells[0].strip('"') == topic:
            found[int(cells[1])] = int(cells[2])
    assert found == wanted
    assert offsets(run, group) == {topic: wanted}


@pytest.mark.kafka
def test_kafkas_tool_describes_the_same_numbers_and_reads_our_files(kafka: ApacheKafka, tmp_path: Path) -> None:
    from tests.cli.conftest import runner
    from tests.cli.grouping import member

    run = runner(kafka.bootstrap)
    topic, group = prepare(run, "same-numbers")
    exported = run("group", "reset", group, "--topic", topic, "--to-latest", "--export")
    file = tmp_path / "plan.csv"
    file.write_text(exported.stdout)
    kafka_tool(kafka, "--reset-offsets", "--group", group, "--from-file", str(file), "--execute")
    assert offsets(run, group) == {topic: {0: 10, 1: 20, 2: 0}}
    run("group", "reset", group, "--topic", f"{topic}:0,1", "--to-offset", "5", "--execute")
    run("group", "delete", group, "--topic", f"{topic}:2")
    with member(kafka.bootstrap, group, topic, partitions=3, client_id="desk"):
        described = kafka_tool(kafka, "--describe", "--group", group)
        theirs = sorted(line.split() for line in described.splitlines() if line.startswith(group))
        shown = run("group", "describe", group, "-O", "table").stdout.splitlines()
        assert sorted(line.split() for line in shown[1:]) == theirs
        assert shown[0].split() == next(line for line in described.splitlines() if line.startswith("GROUP")).split()


def kafka_tool(kafka: ApacheKafka, *args: str) -> str:
    done = tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", kafka.bootstrap, *args
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# -- what only ours says


def test_a_dry_run_shows_old_and_new_and_says_that_it_is_one(ottla: Run) -> None:
    topic, group = prepare(ottla, "dry")
    shown = ottla("group", "reset", group, "--topic", topic, "--to-offset", "15", "-O", "table")
    head, *lines = (line.split() for line in shown.stdout.splitlines())
    assert head == ["GROUP", "TOPIC", "PARTITION", "OLD-OFFSET", "NEW-OFFSET", "CHANGE"]
    assert [line[2:] for line in lines] == [["0", "4", "10", "+6"], ["1", "4", "15", "+11"], ["2", "-", "0", "-"]]
    assert shown.stderr.splitlines() == [
        f"Warning: offset 15 of {topic}-0 lies after its end: 10 is taken.",
        f"Warning: offset 15 of {topic}-2 lies after its end: 0 is taken.",
        "Nothing was changed: this is what --execute would do.",
    ]
    done = ottla("group", "reset", group, "--topic", topic, "--to-current", "--execute")
    assert done.stderr == f"Set 3 offsets of group {group}; 1 changed.\n"
    same = ottla("group", "reset", group, "--topic", topic, "--to-current")
    assert same.stderr == "Nothing was changed, and nothing would be: the offsets are there already.\n"


def test_a_time_is_told_with_its_zone_and_partitions_without_records_of_it(ottla: Run) -> None:
    topic, group = prepare(ottla, "time-told")
    shown = ottla("group", "reset", group, "--topic", topic, "--to-datetime", "2023-11-14T23:13:33+01:00")
    assert shown.stderr.splitlines()[:3] == [
        "The time is 2023-11-14T22:13:33.000Z.",
        f"Warning: {topic}-0 has no record of that time or later: its end is taken.",
        f"Warning: {topic}-2 has no record of that time or later: its end is taken.",
    ]


def test_offsets_go_to_a_file_and_come_back(ottla: Run, tmp_path: Path) -> None:
    topic, group = prepare(ottla, "file")
    before = ottla("group", "reset", group, "--all-topics", "--to-current", "--export")
    assert before.stdout == f"{topic},0,4\n{topic},1,4\n"
    file = tmp_path / "plan.csv"
    file.write_text(before.stdout)
    ottla("group", "reset", group, "--all-topics", "--to-latest", "--execute")
    ottla("group", "reset", group, "--from-file", str(file), "--execute")
    assert offsets(ottla, group) == {topic: {0: 4, 1: 4}}

    other = f"{group}-2"
    several = ottla("group", "reset", group, other, "--topic", f"{topic}:1", "--to-offset", "9", "--export")
    assert several.stdout == f"{group},{topic},1,9\n{other},{topic},1,9\n"
    file.write_text(several.stdout)
    assert ottla("group", "reset", "--all", "--from-file", str(file), "--execute").returncode == 0
    assert offsets(ottla, other) == {topic: {1: 9}}
    absent = ottla("group", "reset", "another", "--from-file", str(file))
    assert absent.returncode == 1 and "the file has no offsets of group another" in absent.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("t,0,1\nt,x,1\n", "line 2: neither TOPIC,PARTITION,OFFSET nor GROUP,TOPIC,PARTITION,OFFSET: 't,x,1'"),
        ("t,0\n", "line 1: neither"),
        ("", "has no offsets"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_with_its_line(ottla: Run, tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(text)
    refused = ottla("group", "reset", "g", "--from-file", str(file))
    assert refused.returncode == 1 and told in refused.stderr and str(file) in refused.stderr


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--to-latest"], "which partitions? Give either --topic TOPIC[:PARTITION,...] or --all-topics"),
        (["--topic", "t", "--all-topics", "--to-latest"], "which partitions?"),
        (["--topic", "t"], "to where? Give one of --to-earliest, --to-latest, --to-current"),
        (["--topic", "t", "--to-latest", "--shift-by", "1"], "--to-latest and --shift-by exclude each other"),
        (["--topic", "t", "--to-latest", "--execute", "--dry-run"], "exclude each other"),
        (["--topic", "t:a", "--to-latest"], "'t:a' is neither a topic nor TOPIC:PARTITION,..."),
        (["--topic", "t", "--by-duration", "soon"], "'soon' is not a span of time"),
        (["--all-topics", "--from-file", "x"], "--from-file says itself which partitions"),
    ],
)
def test_what_is_not_understood_is_told_before_anybody_is_asked(ottla: Run, args: list[str], told: str) -> None:
    refused = ottla("group", "reset", "g", *args)
    assert refused.returncode == 2 and told in refused.stderr


def test_what_cannot_be_reset_is_told(ottla: Run) -> None:
    topic, group = prepare(ottla, "refused")

    def refused(*args: str) -> str:
        done = ottla("group", *args)
        assert done.returncode == 1
        return done.stderr

    shifted = refused("reset", group, "--topic", topic, "--shift-by", "1")
    assert f"the offset of group {group} in {topic}-2 cannot be shifted: it has committed none there" in shifted
    assert f"topic {topic} has no partition 7, only 0 to 2" in refused(
        "reset", group, "--topic", f"{topic}:7", "--to-latest"
    )
    assert f"did you mean {topic}?" in refused("reset", group, "--topic", f"{topic}x", "--to-latest")
    assert "there is no group" in refused("seek", f"{group}y", topic, "-o", "0")
    new = ottla("group", "reset", "brand-new", "--all-topics", "--to-latest")
    assert new.returncode == 0 and new.stderr.splitlines() == [
        "Group brand-new is not there yet: it comes to be with its offsets.",
        "Group brand-new has committed no offsets: name topics by --topic.",
        "There is nothing to reset.",
    ]


@pytest.mark.parametrize(
    ("given", "new"),
    [("beginning", 0), ("end", 20), ("7", 7), ("-6", 14), ("-60", 0), ("s@1700000002", 2), ("99", 20)],
)
def test_seek_goes_there_at_once(ottla: Run, given: str, new: int) -> None:
    topic, group = prepare(ottla, f"seek-{given}")
    told = rows(ottla, "group", "seek", group, topic, "-p", "1", "-o", given)
    assert told == [{"group": group, "topic": topic, "partition": 1, "old_offset": 4, "new_offset": new}]
    assert offsets(ottla, group) == {topic: {0: 4, 1: new}}


def test_seek_takes_partitions_as_reset_does(ottla: Run) -> None:
    topic, group = prepare(ottla, "seek-scope")
    told = rows(ottla, "group", "seek", group, f"{topic}:1", "-o", "7")
    assert [row["partition"] for row in told] == [1]
    both = ottla("group", "seek", group, f"{topic}:1", "-p", "0", "-o", "7")
    assert both.returncode == 2 and f"Name them either after {topic}: or by -p" in both.stderr
    assert offsets(ottla, group) == {topic: {0: 4, 1: 7}}


def test_one_group_with_members_does_not_keep_others_from_being_reset(ottla: Run, node: str) -> None:
    from tests.cli.grouping import member

    topic, group = prepare(ottla, "several")
    with member(node, f"{group}-live", topic, partitions=3):
        done = ottla("group", "reset", group, f"{group}-live", "--topic", topic, "--to-latest", "--execute")
    assert done.returncode == 1 and f"offsets of group {group}-live can be changed only while" in done.stderr
    assert f"Set 3 offsets of group {group}; 3 changed." in done.stderr
    assert offsets(ottla, group) == {topic: {0: 10, 1: 20, 2: 0}}


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H30M", 5_400_000), ("P1DT0.5S", 86_400_500), ("pt5m", 300_000), ("-PT1S", -1000), ("PT-1S", -1000),
        ("90s", 90_000), ("1h 30m", 5_400_000), ("2d", 172_800_000),
    ],
)  # fmt: skip
def test_spans_of_time_are_written_as_iso_or_as_people_do(text: str, ms: int) -> None:
    from ottla.cli.times import parse_span

    assert parse_span(text) == ms


@pytest.mark.parametrize("text", ["P", "PT", "", "5", "PT5", "P1H"])
def test_what_is_no_span_of_time(text: str) -> None:
    from ottla.cli.times import parse_span

    with pytest.raises(ValueError, match="is not a span of time"):
        parse_span(text)
