"""Whatever was written and however often it was cleaned: every reader ends with the table of the full history."""

from dataclasses import replace
from random import Random

import pytest
from tests.log.cleaning.given import NEWCOMER, SMALL, Reader, Tables, headers, offsets, read_on
from tests.log.given import Machine, check_finding, check_indexes, producer_state

from ottla.record.batch import Codec

SEEDS = 25


class Story:
    """Some producers, one of them with transactions; and what a reader of the full history would know."""

    def __init__(self, seed: int, machine: Machine) -> None:
        self.random = random = Random(seed)
        self.machine = machine
        settings = SMALL if seed % 3 else replace(SMALL, dedupe_bytes=24 * 30)
        self.tables = Tables(
            machine, settings, segment_bytes=random.choice([300, 700, 3000]),
            index_interval_bytes=random.choice([0, 200]), delete_retention_ms=random.choice([0, 2_000, 60_000]),
        )  # fmt: skip
        self.expected: dict[bytes, bytes] = {}
        self.open: dict[bytes, bytes | None] = {}
        self.is_open = False
        self.sequences = {-1: 0, 7: 0, 8: 0}
        self.readers: list[Reader] = []

    def live(self, turns: int) -> None:
        for _ in range(turns):
            self.write()
            if self.random.random() < 0.1:
                self.readers.append(read_on(self.tables.log, NEWCOMER))
            if self.random.random() < 0.15:
                if self.is_open:
                    self.end()
                self.machine.pass_time(self.random.choice([0.1, 1, 3]))
                self.tables.compact()
                self.check()

    def write(self) -> None:
        random, producer = self.random, self.random.choice([-1, -1, 7, 8])
        if producer == 8 and self.is_open and random.random() < 0.4:
            self.end()
            return
        pairs = [
            (b"k%d" % random.randrange(12), None if random.random() < 0.2 else b"%x" % random.getrandbits(64))
            for _ in range(random.randint(1, 6))
        ]
        if self.is_open and producer != 8:  # two writers of one key at once: which one counts is not our question
            pairs = [(key, value) for key, value in pairs if key not in self.open] or [(b"other", b"1")]
        self.tables.put(
            pairs, producer_id=producer, sequence=self.sequences[producer], transactional=producer == 8,
            codec=random.choice(list(Codec)), timestamp=self.machine.env.clock.now_ms(),
        )  # fmt: skip
        self.sequences[producer] += len(pairs)
        if producer == 8:
            self.is_open = True
            self.open.update(pairs)
        else:
            self.apply(dict(pairs))

    def end(self) -> None:
        commit = self.random.random() < 0.5
        self.tables.end(8, commit=commit)
        if commit:
            self.apply(self.open)
        self.open.clear()
        self.is_open = False

    def apply(self, changes: dict[bytes, bytes | None]) -> None:
        for key, value in changes.items():
            if value is None:
                self.expected.pop(key, None)
            else:
                self.expected[key] = value

    def check(self) -> None:
        log = self.tables.log
        assert read_on(log, NEWCOMER).table == self.expected
        found = offsets(log)
        assert found == sorted(found)
        check_finding(log)
        check_indexes(log)
        # Who is further behind than a tombstone is kept may have missed it, as in Kafka.
        if self.tables.config.delete_retention_ms == 60_000:
            for reader in self.readers:
                assert read_on(log, reader).table == self.expected

    def check_restart(self) -> None:
        producers = producer_state(self.tables.log.producers)
        before = [header._replace(crc=0) for header in headers(self.tables.log)]
        self.tables.reopen()
        assert producer_state(self.tables.log.producers) == producers
        assert [header._replace(crc=0) for header in headers(self.tables.log)] == before
        self.check()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_reader_ends_with_the_same_table(seed: int) -> None:
    with Machine(seed) as machine:
        story = Story(seed, machine)
        story.live(120)
        if story.is_open:
            story.end()
        story.tables.compact()
        story.check()
        story.check_restart()
        story.live(40)
