"""What a node tells about its remote tier, by Kafka's names."""

from __future__ import annotations

from pathlib import Path

from tests.broker.watching import Scrape, scrape
from tests.tier.faulty_store import faulty_stores
from tests.tier.tiered import TOPIC, consume, create, produce, tiered_node, until_local_from
from tests.waiting import until

from ottla.testing.node import RunningNode

TOPICS = "kafka_server_brokertopicmetrics_{}"


def of(told: Scrape, name: str) -> float:
    return told.get(TOPICS.format(name), topic=TOPIC)


def once_all_is_copied(running: RunningNode) -> Scrape:
    """A later look may see the next segment: the last one closes when its records have been there for long enough."""

    def told() -> Scrape | None:
        seen = scrape(running)
        has_all = of(seen, "remotelogmetadatacount") == of(seen, "remotecopyrequests_total")
        return seen if has_all and of(seen, "remotecopylagsegments") == 0 else None

    found = until(told)
    assert found is not None
    return found


def test_what_goes_there_and_comes_back_is_counted(tmp_path: Path) -> None:
    with tiered_node(tmp_path, ottla_metrics_listener="127.0.0.1:0") as running:
        create(running.address)
        end = produce(running.address, 0, 12)
        until_local_from(running, end - 10)
        consume(running.address, 0, end)
        told = once_all_is_copied(running)
        assert of(told, "remotecopyrequests_total") >= 2
        assert of(told, "remotecopybytes_total") == of(told, "remotelogsizebytes") > 2000
        assert of(told, "remotefetchrequests_total") >= 1
        assert of(told, "remotefetchbytes_total") > 2000
        assert 0 < told.value("ottla_tier_cache_bytes") <= told.value("ottla_tier_store_read_bytes_total")
        for name in ("remotecopyerrors_total", "remotefetcherrors_total"):
            assert of(told, name) == 0, name


def test_what_fails_and_waits_is_told(tmp_path: Path) -> None:
    def lags(running: RunningNode) -> bool:
        told = scrape(running)
        return of(told, "remotecopyerrors_total") > 1 and of(told, "remotecopylagbytes") > 1000

    with faulty_stores() as stores, tiered_node(tmp_path, ottla_metrics_listener="127.0.0.1:0") as running:
        (store,) = stores
        store.fail("put")
        create(running.address)
        produce(running.address, 0, 12)
        until(lambda: lags(running))
        store.heal()
        until(lambda: of(scrape(running), "remotecopylagsegments") == 0)
