"""A broker's place in its cluster: it registers, says that it lives, is let in, and asks before it goes.

    starting    --- registered, and the metadata applied up to there ---> recovery
    recovery    --- its logs are open, and it was unfenced -------------> running
    running     --- it is to stop --------------------------------------> pending controlled shutdown
    pending ... --- nothing is led here any more -----------------------> shutting down

One message at a time is under way, a registration or a heartbeat. The next follows after
`broker.heartbeat.interval.ms`, or at once when there is something to tell; after failures the rests grow. A broker that
was fenced while it ran goes on as it is: its heartbeats get it unfenced. One whose epoch is no longer the cluster's (it
was unregistered, or another process took its id) goes on trying too, as Kafka's, and has no place until it starts anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ottla.broker.node_state import NodeState
from ottla.env.backoff import Backoff
from ottla.env.ports import Env
from ottla.env.tasks import Tasks
from ottla.log.log_dir import LogDir
from ottla.metadata.controller.requests import BrokerHeartbeat, HeartbeatReply, RegisterBroker
from ottla.metadata.controller_port import ControllerPort
from ottla.model.config import BrokerConfig
from ottla.model.errors import ErrorCode, KafkaError, OttlaError

_log = logging.getLogger("ottla.broker")
_SOON_S: Final = 0.01  # while a start waits for it
_WHILE_LEAVING: Final = Backoff(50, 500)  # others must first have heard that the leaders are elsewhere

# To try again would not help: somebody must correct something first.
_FOR_GOOD: Final = frozenset(
    (
        ErrorCode.inconsistent_cluster_id,
        ErrorCode.invalid_registration,
        ErrorCode.unsupported_version,
        ErrorCode.broker_id_not_registered,
        ErrorCode.cluster_authorization_failed,
    )
)


_ADVICE: Final = {
    ErrorCode.duplicate_broker_registration: "another process is registered under this broker's node.id, and its "
    "session is not over. If it was this broker's former self, that ends by itself; otherwise give each node a node.id "
    "of its own",
}


class StartGivenUp(Exception):
    """The node was to stop while it waited for others. What was begun is still to be stopped."""


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    heartbeat_ms: int
    session_ms: int
    registration_ms: int
    """How long the first registration is tried."""
    directory_failure_ms: int
    """A broker that cannot tell the controller of a failed log dir for so long stops."""


def lifecycle_settings(config: BrokerConfig) -> LifecycleSettings:
    return LifecycleSettings(
        config.get_int("broker.heartbeat.interval.ms"),
        config.get_int("broker.session.timeout.ms"),
        config.get_int("initial.broker.registration.timeout.ms"),
        config.get_int("log.dir.failure.timeout.ms"),
    )


class Lifecycle:
    """`registration` is what is sent to register; `metadata_offset` how far this broker has applied the metadata."""

    def __init__(
        self,
        env: Env,
        controller: ControllerPort,
        settings: LifecycleSettings,
        registration: RegisterBroker,
        metadata_offset: Callable[[], int],
    ) -> None:
        self.broker_epoch = -1
        self.state = NodeState.STARTING
        self.on_state: Callable[[NodeState], None] = lambda _: None
        self.on_failed: Callable[[str], None] = lambda _: None
        """This broker cannot go on, and why."""
        self.last_heartbeat = env.loop.time()
        """When the controller last answered, by the loop's clock."""
        self._env = env
        self._controller = controller
        self._settings = settings
        self._registration = registration
        self._metadata_offset = metadata_offset
        # One that starts waits for little: the session of its former self ends at some moment.
        self._until_registered = Backoff(100, 1000, 0.02)
        self._between_heartbeats = Backoff(100, settings.session_ms, 0.02)
        self._failures = 0
        self._why = "there was no answer"
        self._is_registered = False
        self._is_ready = False
        self._offline: dict[UUID, bool] = {}  # and whether the controller knows
        self._cordoned: tuple[UUID, ...] = ()
        self._times_told_to_stay = 0
        self._wanted = asyncio.Event()  # the next message, before its time
        self._told = asyncio.Event()
        self._registered: asyncio.Future[int] = env.loop.create_future()
        self._caught_up: asyncio.Future[None] = env.loop.create_future()
        self._unfenced: asyncio.Future[None] = env.loop.create_future()
        self._may_go: asyncio.Future[None] = env.loop.create_future()
        self._tasks = Tasks(self._broke)

    # -- starting

    async def register(self) -> int:
        """The epoch of this broker. OttlaError if it was refused, or nobody answered in time."""
        self._warn_of_short_sessions()
        self._tasks.start(self._live(), "broker lifecycle")
        limit = self._settings.registration_ms / 1000
        try:
            async with asyncio.timeout(limit):
                return await asyncio.shield(self._registered)
        except TimeoutError:
            message = f"this broker could not register within {limit:g} s (initial.broker.registration.timeout.ms)"
            raise OttlaError(f"{message}: {self._why}") from None

    def give_up(self) -> None:
        """Who waits to be registered, or to have caught up, gets StartGivenUp."""
        waiting = next((future for future in (self._registered, self._caught_up) if not future.done()), None)
        if waiting is not None:
            waiting.set_exception(StartGivenUp())

    def _warn_of_short_sessions(self) -> None:
        """Kafka says nothing, and fences such a broker between two heartbeats, again and again."""
        session, heartbeat = self._settings.session_ms, self._settings.heartbeat_ms
        if session < 2 * heartbeat:
            _log.warning(
                "broker.session.timeout.ms is %d and broker.heartbeat.interval.ms %d: %s. Make the session several "
                "times as long as the interval, on all nodes.",
                session,
                heartbeat,
                "this broker is fenced between two heartbeats" if session <= heartbeat else "one late heartbeat fences",
            )

    async def caught_up(self) -> None:
        """Until the controller says that the metadata is applied here up to this broker's registration."""
        await asyncio.shield(self._caught_up)

    async def unfenced(self) -> None:
        """To be called when the logs are open. Until the controller has let this broker in."""
        self._is_ready = True
        self.wake()
        await asyncio.shield(self._unfenced)

    # -- what the controller is to know

    def wake(self) -> None:
        """There is something to tell: not in its time, but now."""
        self._wanted.set()

    def fail_directories(self, directories: Iterable[UUID]) -> None:
        for directory in directories:
            if directory not in self._offline:
                self._offline[directory] = False
                self._tasks.start(self._expect_told(directory), "log dir failure")
        self.wake()

    def cordon(self, directories: tuple[UUID, ...]) -> None:
        """These, and no others."""
        self._cordoned = directories
        self.wake()

    def resend_registration(self) -> None:
        """The cluster knows this broker, but not all of it, as after an upgrade of the metadata."""
        self._is_registered = False
        self.wake()

    async def tell(self) -> None:
        """Until a heartbeat that began from now on was answered."""
        self._told = told = asyncio.Event() if self._told.is_set() else self._told
        self.wake()
        await told.wait()

    # -- stopping

    async def leave(self) -> None:
        """Asks the controller to move all leaders away, and waits until it has (`controlled.shutdown.enable`).

        A broker that no controller answers for a heartbeat's time goes without: it cannot hand over anything.
        """
        if self.state is not NodeState.RUNNING:
            return
        self._be(NodeState.PENDING_CONTROLLED_SHUTDOWN)
        self.wake()
        patience = self._settings.heartbeat_ms / 1000
        self.last_heartbeat = self._env.loop.time()
        while not self._may_go.done():
            left = self.last_heartbeat + patience - self._env.loop.time()
            if left <= 0:
                _log.warning("no controller has answered for %g s: this broker stops without handing over", patience)
                return
            await asyncio.wait((self._may_go,), timeout=left)

    async def stop(self) -> None:
        self._be(NodeState.SHUTTING_DOWN)
        await self._tasks.stop()

    # -- the conversation

    async def _live(self) -> None:
        while self.state is not NodeState.SHUTTING_DOWN:
            self._wanted.clear()
            try:
                if self._is_registered:
                    rest = await self._heartbeat()
                else:
                    rest = await self._register()
                self._failures = 0
            except KafkaError as error:
                self._failures += 1
                backoff = self._between_heartbeats if self._is_registered else self._until_registered
                rest = backoff.seconds(self._failures, self._env.random)
                self._wanted.clear()  # never at once after a failure
                self._tell_of(error)
            if rest > 0:
                try:
                    async with asyncio.timeout(rest):
                        await self._wanted.wait()
                except TimeoutError:
                    pass

    async def _register(self) -> float:
        try:
            self.broker_epoch = await self._controller.submit(self._registration)
        except KafkaError as error:
            if error.code in _FOR_GOOD and not self._registered.done():
                self._registered.set_exception(_refused(error))
            raise
        _log.info("registered in epoch %d", self.broker_epoch)
        self._is_registered = True
        if not self._registered.done():
            self._registered.set_result(self.broker_epoch)
        return 0.0

    async def _heartbeat(self) -> float:
        offline, told = tuple(self._offline), self._told
        reply = await self._controller.submit(
            BrokerHeartbeat(
                self._registration.broker_id,
                self.broker_epoch,
                self._metadata_offset(),
                want_fence=not self._is_ready,
                want_shut_down=self.state is NodeState.PENDING_CONTROLLED_SHUTDOWN,
                offline_directories=offline,
                # before it has caught up a broker does not know what its dynamic configs say
                cordoned_directories=self._cordoned if self._is_ready else None,
            )
        )
        self.last_heartbeat = self._env.loop.time()
        self._offline.update(dict.fromkeys(offline, True))
        told.set()
        return self._heard(reply)

    def _heard(self, reply: HeartbeatReply) -> float:
        """What the controller said, and how long to rest before it is asked again."""
        often = self._settings.heartbeat_ms / 1000
        match self.state:
            case NodeState.STARTING:
                if reply.is_caught_up and not self._caught_up.done():
                    self._be(NodeState.RECOVERY)
                    self._caught_up.set_result(None)
                return _SOON_S
            case NodeState.RECOVERY:
                if reply.is_fenced:
                    return _SOON_S if self._is_ready else often
                self._be(NodeState.RUNNING)
                self._unfenced.set_result(None)
            case NodeState.PENDING_CONTROLLED_SHUTDOWN:
                if reply.should_shut_down:
                    self._be(NodeState.SHUTTING_DOWN)
                    if not self._may_go.done():
                        self._may_go.set_result(None)
                    return often
                self._times_told_to_stay += 1
                return _WHILE_LEAVING.seconds(self._times_told_to_stay, self._env.random)
        return often

    def _tell_of(self, error: KafkaError) -> None:
        reason = _ADVICE.get(error.code) or error.message
        self._why = f"{error.code.name.upper()}, {reason}" if reason else error.code.name.upper()
        about = "heartbeat" if self._is_registered else "registration"
        level = logging.WARNING if self._failures == 1 or self._failures % 10 == 0 else logging.DEBUG
        _log.log(level, "the controller did not take this broker's %s, it is tried again: %s", about, self._why)

    async def _expect_told(self, directory: UUID) -> None:
        limit = self._settings.directory_failure_ms / 1000
        await asyncio.sleep(limit)
        if not self._offline[directory]:
            self.on_failed(
                f"the controller could not be told within {limit:g} s (log.dir.failure.timeout.ms) that log dir "
                f"{directory} has failed; its partitions would be led from here in vain. Restart when it is back."
            )

    def _be(self, state: NodeState) -> None:
        if state is not self.state:
            _log.info("from %s to %s", self.state.name, state.name)
            self.state = state
            self.on_state(state)

    def _broke(self, error: BaseException) -> None:
        """A mistake of ours: without heartbeats this broker would be taken for dead and not know it."""
        _log.error("the broker's conversation with the controller has ended: %s", error, exc_info=error)
        for waiting in (self._registered, self._caught_up, self._unfenced):
            if not waiting.done():
                waiting.set_exception(error)
        self.on_failed(f"the broker's conversation with the controller has ended: {error!r}")


def previous_epoch(dirs: Iterable[LogDir], *, all_online: bool) -> int:
    """The epoch of the last incarnation if it stopped cleanly in all of its log dirs, else -1."""
    epochs = {log_dir.clean_broker_epoch for log_dir in dirs}
    if not all_online or len(epochs) != 1:
        return -1
    (epoch,) = epochs
    return -1 if epoch is None else epoch


def _refused(error: KafkaError) -> OttlaError:
    return OttlaError(
        f"this node cannot join its cluster: {error.code.name.upper()}, {error}. Correct its configuration, or its log "
        "dirs. If Apache Kafka began these folders, it has finalised features that Ottla does not have yet; give Ottla "
        "folders of its own."
    )
