"""Configs that have no effect yet, by the part of the system that they are about and that is still to come.

They are checked, stored and described like all others. A name that ends with a dot stands for all that begin so. What
comes to life is taken out of here; tests/docs fails on a config that nothing reads and that stands neither here nor is
marked as being about the JVM.
"""

from typing import Final

TO_COME: Final[dict[str, tuple[str, ...]]] = {
    "groups": ("group.", "offsets."),
    "streams groups": ("group.streams.", "streams."),
    "share groups": ("group.share.", "share."),
    "transactions": ("transaction.two.phase.commit.enable", "transaction.state.log.load.buffer.size"),
    "several nodes": (
        "controller.quorum.append.linger.ms", "metadata.max.idle.interval.ms",
        "replica.socket.receive.buffer.bytes", "socket.connection.setup.timeout.max.ms",
    ),
    "the controller's log of slow work": ("controller.performance.",),
    "quotas": (
        "quota.", "replication.quota.", "alter.log.dirs.replication.quota.", "controller.quota.",
    ),
    "rates in metrics": ("metrics.num.samples", "metrics.sample.window.ms", "metrics.recording.level"),
    "security": (
        "ssl.", "sasl.", "delegation.token.", "principal.builder.class", "connections.max.reauth.ms",
        "connection.failed.authentication.delay.ms", "early.start.listeners", "authorizer.class.name",
    ),
    "versions that are still being worked on": ("unstable.",),
}  # fmt: skip


def part_to_come(name: str) -> str | None:
    """The part that a config belongs to, by the longest entry that fits it."""
    best, found = "", None
    for part, entries in TO_COME.items():
        for entry in entries:
            fits = name == entry or (entry.endswith(".") and name.startswith(entry))
            if fits and len(entry) > len(best):
                best, found = entry, part
    return found
