"""BrokerHeartbeat: in which state a broker is, in which it goes on, and what that means for its partitions.

fenced ------------- wants to serve, and knows of its own registration ---> unfenced
unfenced ----------- wants to be fenced, or was silent for too long ------> fenced
unfenced ----------- wants to go, and leads something --------------------> controlled shutdown
controlled shutdown  leads nothing, and all others know that -------------> goes (fenced)
"""

from enum import Enum
from typing import Final

from ottla.metadata.controller import brokers, directories
from ottla.metadata.controller.partition_change import DIRECTORIES
from ottla.metadata.controller.partition_changes import PartitionChanges
from ottla.metadata.controller.requests import BrokerHeartbeat, HeartbeatReply
from ottla.metadata.controller.result import ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.controller.soft_state import NOT_SHUTTING_DOWN, BrokerPulse, SoftState
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import BrokerImage, MetadataImage
from ottla.metadata.records.base import MetadataRecord


class State(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    SHUTTING_DOWN = "in controlled shutdown"
    GOES = "goes"


_FENCED: Final = (State.FENCED, State.GOES)


def heartbeat(
    request: BrokerHeartbeat, image: MetadataImage, settings: ControllerSettings, soft: SoftState
) -> ControllerResult[HeartbeatReply] | Refused:
    broker = brokers.check_epoch(image, request.broker_id, request.broker_epoch)
    if isinstance(broker, Refused):
        return broker
    first_offset = image.offset + 1
    pulse = soft.pulse(broker.id, broker.epoch, image)
    soft.saw_now(pulse)
    now = _state(broker, pulse)
    state = _next_state(now, request, pulse, image, soft)
    records: list[MetadataRecord] = []
    if state is not now:
        records += _records(state, broker, PartitionChanges(image, settings, soft))
    pulse.metadata_offset = request.metadata_offset
    if request.offline_directories and records:
        image = _after(image, records)  # the broker's state has changed before its directories are looked at
    records += _directories(request, image, settings, soft)
    if state in _FENCED:
        pulse.shutdown_offset = NOT_SHUTTING_DOWN
    elif state is State.SHUTTING_DOWN and not pulse.is_shutting_down:
        pulse.shutdown_offset = first_offset + len(records) - 1
    if state is State.GOES:
        soft.end_session(broker.id)
    is_caught_up = request.metadata_offset >= pulse.registered_at
    reply = HeartbeatReply(is_caught_up, state in _FENCED, state is State.GOES)
    return ControllerResult(reply, tuple(records), is_whole=False)


def _state(broker: BrokerImage, pulse: BrokerPulse) -> State:
    if pulse.is_shutting_down:
        return State.SHUTTING_DOWN
    return State.FENCED if broker.fenced else State.UNFENCED


def _next_state(
    now: State, request: BrokerHeartbeat, pulse: BrokerPulse, image: MetadataImage, soft: SoftState
) -> State:
    leads = soft.index(image).led_by[request.broker_id] > 0
    match now:
        case State.FENCED:
            if request.want_shut_down:
                return State.GOES
            may_serve = not request.want_fence and request.metadata_offset >= pulse.registered_at
            return State.UNFENCED if may_serve else State.FENCED
        case State.UNFENCED:
            if request.want_fence:
                return State.GOES if request.want_shut_down else State.FENCED
            if request.want_shut_down:
                return State.SHUTTING_DOWN if leads else State.GOES
            return State.UNFENCED
        case _:
            lowest = soft.lowest_active_offset(image)
            others_know = lowest is None or pulse.shutdown_offset <= lowest
            return State.GOES if others_know and not leads else State.SHUTTING_DOWN


def _records(state: State, broker: BrokerImage, changes: PartitionChanges) -> list[MetadataRecord]:
    match state:
        case State.UNFENCED:
            return brokers.unfenced(broker, changes)
        case State.SHUTTING_DOWN:
            return brokers.in_controlled_shutdown(broker, changes)
        case _:
            return brokers.fenced(broker, changes)


def _directories(
    request: BrokerHeartbeat, image: MetadataImage, settings: ControllerSettings, soft: SoftState
) -> list[MetadataRecord]:
    broker = image.brokers[request.broker_id]
    records: list[MetadataRecord] = []
    if request.offline_directories and image.metadata_version >= DIRECTORIES:
        records += directories.offline(broker, request.offline_directories, image, settings, soft)
    if request.cordoned_directories is not None:
        records += directories.cordoned(broker, request.cordoned_directories, image)
    return records


def _after(image: MetadataImage, records: list[MetadataRecord]) -> MetadataImage:
    delta = MetadataDelta(image)
    delta.replay_all(records)
    return delta.apply(image.offset + len(records), image.epoch)
