"""Right bodies for every API that a single node answers, by hand; edges and mutations are made from them."""

from __future__ import annotations

from typing import Final

from tests.corpus.scenarios import cluster, configs, groups, modern_groups, records, topics, transactions
from tests.corpus.scenarios.scenario import Scenario

ALL: Final[tuple[Scenario, ...]] = tuple(
    sorted(
        (
            scenario
            for module in (cluster, configs, groups, modern_groups, records, topics, transactions)
            for scenario in vars(module).values()
            if isinstance(scenario, Scenario)
        ),
        key=lambda scenario: scenario.key,
    )
)
BY_KEY: Final = {scenario.key: scenario for scenario in ALL}
