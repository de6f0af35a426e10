"""What a worker makes of the topic of specs, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError

from ottla.pipeline.service.modules import beside
from ottla.pipeline.service.records import Deployed, deployed
from ottla.pipeline.service.worker import Pipeline, Worker


class Message(NamedTuple):
    name: str
    one: Deployed | None = None
    is_end: bool = False

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 0

    def error(self) -> Any:
        return KafkaError(KafkaError._PARTITION_EOF) if self.is_end else None

    def key(self) -> bytes:
        return self.name.encode()

    def value(self) -> bytes | None:
        return None if self.one is None else self.one.to_json()


class Full:
    """A producer whose cluster has been away for long."""

    def produce(self, *given: Any, **more: Any) -> None:
        raise BufferError


def worker(folder: Path, said: list[str]) -> Worker:
    made = Worker("127.0.0.1:1", folder, "w", said.append)
    made._producer = Full()
    return made


def test_what_was_deployed_before_is_not_run_once_more(tmp_path: Path) -> None:
    said: list[str] = []
    one = worker(tmp_path, said)
    one.catch_up(3)
    for message in (
        Message("gone", Deployed("gone", "old")), Message("kept", Deployed("kept", "first")), Message("gone"),
        Message("kept", Deployed("kept", "second")),
    ):  # fmt: skip
        one.hear(message)
    assert one.pipelines == {}  # as long as it is not known what comes behind
    one.hear(Message("", is_end=True))
    assert {name: pipeline.one.spec for name, pipeline in one.pipelines.items()} == {"kept": "second"}
    one.hear(Message("new", Deployed("new", "now")))
    one.hear(Message("kept"))
    assert list(one.pipelines) == ["new"]


def test_what_cannot_be_run_harms_nobody_else(tmp_path: Path) -> None:
    said: list[str] = []
    one = worker(tmp_path, said)
    one.hear(Message("outside", Deployed("../outside", "name: x")))
    assert one.pipelines == {} and "is no name of a pipeline" in said[-1]
    wrong = Pipeline(Deployed("wrong", "name: wrong", {"../../elsewhere.py": ""}), 3, one)
    wrong.tend()
    assert not (tmp_path.parent / "elsewhere.py").exists() and wrong.supervised.failures == 1


def test_why_a_run_has_ended_is_told_whole(tmp_path: Path) -> None:
    one = Pipeline(Deployed("shop", "name: shop"), 3, worker(tmp_path, []))
    assert one._reason() is None
    one._read([b"shop: runs\n", b"counts: batch 0\n"])
    assert one._reason() == "counts: batch 0"
    one._read([b"ottla: counts has changed:\n", b"  was: windows of 60 s\n", b"Undo the change\n"])
    assert one._reason() == "counts has changed: was: windows of 60 s Undo the change"


def test_names_become_folders() -> None:
    with pytest.raises(ValueError, match="is no name"):
        deployed(Deployed("..", "").to_json())


def test_what_steps_import_of_what_is_beside_the_spec_goes_along(tmp_path: Path) -> None:
    files = {
        "plain.py": "import json\nimport helper\n",
        "helper.py": "from shop.prices import fee\n",
        "shop/__init__.py": "",
        "shop/prices.py": "from . import rates\nfrom .deep.down import x\n",
        "shop/rates.py": "import shop.prices\n",
        "shop/deep/down.py": "from ..other import y\n",
        "shop/other.py": "this is no Python\n",
        "package/__init__.py": "",
        "unused.py": "",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert beside(tmp_path, ["plain", "package", "pyspark.sql"]) == {
        path: text for path, text in files.items() if path != "unused.py"
    }
