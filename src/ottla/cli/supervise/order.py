"""In which order nodes stop, so that each finds a controller that takes its partitions over as long as one can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.cli.supervise.child import Child, State
from ottla.cli.supervise.layout import Layout


def next_to_stop(children: Sequence[Child]) -> list[Child]:
    """Which are to be told now.

    First the brokers that are no voters, together; then those that are, one after another, the last first; controllers
    of their own at the end, together.
    """
    living = [child for child in children if child.lives]
    brokers = [child for child in living if child.place.is_broker]
    plain = [child for child in brokers if not child.place.is_voter]
    if plain:
        return [child for child in plain if child.state is not State.STOPPING]
    if brokers:
        return [] if any(child.state is State.STOPPING for child in brokers) else [brokers[-1]]
    return [child for child in living if child.state is not State.STOPPING]


def nodes_without_quorum(layout: Layout, children: Mapping[int, Child]) -> str:
    """The voters that are down, if so many are that no majority is left; otherwise empty."""
    down = [voter.id for voter in layout.voters if not children[voter.id].lives]
    return ", ".join(map(str, down)) if 2 * len(down) >= len(layout.voters) else ""
