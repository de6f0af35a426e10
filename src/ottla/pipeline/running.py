"""Runs a pipeline: a streaming query of Spark for each step that sinks are written from."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable
from functools import reduce
from typing import Any, Final

from ottla.model.errors import OttlaError
from ottla.pipeline import cluster_questions, fingerprint
from ottla.pipeline.checkpoint import DEFAULT_START, WAY_OUT, Checkpoint
from ottla.pipeline.connectors.port import Batch, DataFrame, SparkSession
from ottla.pipeline.connectors.topic_sink import TopicSink, write_records
from ottla.pipeline.connectors.topic_source import TopicSource
from ottla.pipeline.flow import build, reason_of
from ottla.pipeline.progress import Progress, of_spark
from ottla.pipeline.queries import Query, queries
from ottla.pipeline.spec import Spec

_LOOK_EVERY_S: Final = 0.2
_TELL_EVERY_S: Final = 2.0
_STOP_WITHIN_S: Final = 60.0

_OTHER_STATE: Final = re.compile(
    r"STATE_STORE_\w*(SCHEMA_NOT_COMPATIBLE|SCHEMA_INCOMPATIBLE|SCHEMA_EVOLUTION|TYPE_CHANGE|CONFIG_AFTER_RESTART)|"
    r"STREAMING_STATEFUL_OPERATOR_NOT_MATCH"
)
"""What Spark finds when it looks at the state itself, such as a type that is another: fingerprints do not tell it."""

Say = Callable[[Progress], None]


class Run:
    def __init__(
        self,
        spec: Spec,
        spark: SparkSession,
        checkpoint: Checkpoint,
        say: Say,
        has_begun: Callable[[], None] = lambda: None,
    ) -> None:
        self.spec = spec
        self.spark = spark
        self.checkpoint = checkpoint
        self.say = say
        self._has_begun = has_begun
        self._active: dict[str, Any] = {}
        self._progress: dict[str, Progress] = {}
        self._since = time.time()
        self._told_at = 0.0

    def until_done(self, *, once: bool = False, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Returns when it was asked to stop, or, with `once`, when all that was there is written. Whoever calls holds
        the checkpoint."""
        self.checkpoint.forget_to_stop()
        self._tell("starting")
        try:
            self._start(once)
            self._tell("running")
            self._has_begun()
            while self._active:
                time.sleep(_LOOK_EVERY_S)
                self._look()
                if should_stop() or self.checkpoint.is_asked_to_stop:
                    self._stop()
                    break
            self._tell("stopped")
        except BaseException as error:
            for query in self._active.values():
                query.stop()
            self._tell("failed", reason_of(error))
            raise
        finally:
            self.checkpoint.forget_to_stop()

    def _start(self, once: bool) -> None:
        kept = self.checkpoint.kept
        self._begin_where(kept.start)
        self._make_topics()
        flow = build(self.spec, self.spark)
        planned = queries(flow)
        self.checkpoint.admit({query.view: fingerprint.parts(self.spec, query) for query in planned})
        for query in planned:
            folder = self.checkpoint.of_query(query.view)
            writer = (
                query.frame.writeStream.queryName(f"{self.spec.name}.{query.view}")
                .outputMode(query.mode)
                .option("checkpointLocation", str(folder))
                .foreachBatch(self._writing(query, kept.generation))
            )
            every = self.spec.resources.trigger
            writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=str(every))
            try:
                self._active[query.view] = writer.start()
            except Exception as error:
                raise OttlaError(f"{self.spec.file}: {query.view} cannot run: {reason_of(error)}") from error

    def _begin_where(self, start: str) -> None:
        from dataclasses import replace

        for entry in self.spec.sources.values():
            if start != DEFAULT_START and isinstance(entry.source, TopicSource):
                entry.source.given = replace(entry.source.given, start=start)

    def _make_topics(self) -> None:
        for sink in self.spec.sinks.values():
            if isinstance(sink.sink, TopicSink):
                sink.sink.prepare()
        letters = self.spec.errors.dead_letters
        if letters is not None and not cluster_questions.partitions(self.spec.bootstrap, letters):
            cluster_questions.create_topic(self.spec.bootstrap, letters, 1)

    def _writing(self, query: Query, generation: int) -> Callable[[DataFrame, int], None]:
        spec = self.spec
        topics = [one.sink for one in query.sinks if isinstance(one.sink, TopicSink)]
        others = [one for one in query.sinks if not isinstance(one.sink, TopicSink)]

        def write(frame: DataFrame, number: int) -> None:
            with query.parts(frame) as (rows, dead):
                for one in others:
                    one.sink.write(rows, Batch(f"{spec.name}.{one.name}@{generation}", number))
                records = [sink.records(rows) for sink in topics] + ([] if dead is None else [dead])
                if records:
                    together = reduce(lambda one, other: one.unionByName(other), records)
                    given = topics[0].client_options() if topics else {}
                    write_records(
                        spec.bootstrap, together, Batch(f"{spec.name}.{query.view}@{generation}", number), given
                    )

        return write

    def _look(self) -> None:
        for view, query in list(self._active.items()):
            alive = query.isActive
            for now in self._news(view, query):
                self._progress[view] = now
                if now.rows:
                    self.say(now)
            if not alive:
                del self._active[view]
                if (error := query.exception()) is not None:
                    raise OttlaError(f"{self.spec.name}: {_failure(view, error)}") from None
        if time.monotonic() - self._told_at > _TELL_EVERY_S:
            self._tell("running")

    def _news(self, view: str, query: Any) -> list[Progress]:
        """What has come since the last look. All that Spark remembers is only asked for if one look was too late."""
        told = query.lastProgress
        if told is None:
            return []
        before, last = self._progress.get(view), of_spark(view, _as_dict(told))
        known = -1 if before is None else before.batch
        if last.batch <= known:
            return [last] if before is not None and last.batch == known and last.rows > before.rows else []
        if last.batch == known + 1:
            return [last]
        every = [of_spark(view, _as_dict(one)) for one in query.recentProgress]
        return [one for one in every if one.batch > known]

    def _stop(self) -> None:
        """After the micro-batches that are under way, if they end soon."""
        self._tell("stopping")
        deadline = time.monotonic() + _STOP_WITHIN_S
        for query in self._active.values():
            while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
                time.sleep(0.02)
            query.stop()

    def _tell(self, state: str, error: str | None = None) -> None:
        self._told_at = time.monotonic()
        self.checkpoint.tell(
            {
                "name": self.spec.name,
                "state": state,
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "since": self._since,
                "at": time.time(),
                "generation": self.checkpoint.kept.generation,
                "queries": {view: one._asdict() for view, one in self._progress.items()},
                "error": error,
            }
        )


def _failure(view: str, error: BaseException) -> str:
    if _OTHER_STATE.search(str(error)) is None:
        return f"{view} has failed: {reason_of(error)}"
    return f"{view} has changed so that it could not go on with the state that it has: {reason_of(error)}\n{WAY_OUT}"


def _as_dict(told: Any) -> dict[str, Any]:
    import json

    found = told if isinstance(told, dict) else json.loads(told.json if isinstance(told.json, str) else told.json())
    assert isinstance(found, dict)
    return found
