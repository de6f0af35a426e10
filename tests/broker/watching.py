"""What a node tells over HTTP, parsed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.waiting import PATIENCE_S

from ottla.testing.node import RunningNode


class Scrape:
    def __init__(self, text: str) -> None:
        self.text = text
        self.families: dict[str, Metric] = {}
        for family in text_string_to_metric_families(text):
            assert family.name not in self.families, f"the rows of {family.name} do not stand together"
            self.families[family.name] = family
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: object) -> float:
        return self._values[name, frozenset((key, str(value)) for key, value in labels.items())]

    def get(self, name: str, **labels: object) -> float:
        """The same, with 0 for what is not there."""
        return self._values.get((name, frozenset((key, str(value)) for key, value in labels.items())), 0.0)


def scrape(node: RunningNode) -> Scrape:
    return Scrape(get(node, "/metrics")[1].decode())


def health(node: RunningNode, which: str) -> tuple[int, Any]:
    status, body = get(node, f"/health/{which}")
    return status, json.loads(body)


def get(node: RunningNode, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://{node.node.status.address}{path}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
