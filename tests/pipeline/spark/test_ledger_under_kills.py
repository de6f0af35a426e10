"""The ledger of examples/pipelines is killed again and again, and no money comes or goes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.pipeline.spark.pipelines import EXAMPLES, values
from tests.spark.topics import messages, new_topic, write

from ottla.testing.node import RunningNode

ACCOUNTS = [f"account-{number}" for number in range(20)]
SEED = int(os.environ.get("OTTLA_KILL_SEED", "1"))


def transfers(chance: random.Random, first: int, count: int) -> list[bytes]:
    made = []
    for number in range(first, first + count):
        payer, payee = chance.sample(ACCOUNTS, 2)
        made.append({"id": f"t{number}", "payer": payer, "payee": payee, "amount": chance.randrange(0, 100)})
    return [json.dumps(one).encode() for one in made]


def start(node: RunningNode, folder: Path, *more: str) -> subprocess.Popen[bytes]:
    file = EXAMPLES / "ledger" / "pipeline.yaml"
    given = ("pipeline", "run", str(file), "-b", node.address, "--checkpoint", str(folder / "state"), *more)
    environment = os.environ | {"PYTHONPATH": os.path.abspath("src")}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "ottla.cli.main", *given], stderr=log, env=environment, start_new_session=True
        )


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_money_is_conserved(kills: int, node: RunningNode, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    if kills == 3:
        new_topic(node, 2, "transfers")
    written = [0, 0]
    for _ in range(kills):
        process = start(node, tmp_path)
        deadline = time.monotonic() + 60
        until = chance.uniform(0.0, 8.0)
        while time.monotonic() < deadline:
            write(node, "transfers", transfers(chance, sum(written), 50), chance.randrange(2))
            written[0] += 50
            # kills at any time after Spark has begun: it is the micro-batches that may break
            if b": batch " in (tmp_path / "log").read_bytes().rpartition(b"starting Spark")[2]:
                if until <= 0:
                    break
                until -= 0.3
            time.sleep(0.3)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    last = start(node, tmp_path, "--once")
    assert last.wait(600) == 0, (tmp_path / "log").read_text()[-3000:]

    amounts = {
        one["id"]: one["amount"] for message in messages(node, "transfers") for one in [json.loads(message.value())]
    }
    right = {name for name, amount in amounts.items() if amount > 0}
    postings = values(node, "ledger-postings")
    assert Counter(one["id"] for one in postings) == dict.fromkeys(right, 2)
    assert sum(one["amount"] for one in postings) == 0
    dead = [json.loads(message.value())["id"] for message in messages(node, "ledger-dead-letters", "read_committed")]
    assert sorted(dead) == sorted(set(amounts) - right)
    balances = {one["account"]: one for one in values(node, "ledger-balances")}
    assert sum(one["balance"] for one in balances.values()) == 0
    assert sum(one["postings"] for one in balances.values()) == len(postings)
