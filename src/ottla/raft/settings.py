"""How patient a quorum is, with the defaults of Kafka's configs for it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    election_timeout_ms: int = 1000
    """An election is given up after this and up to as much again, at random."""
    fetch_timeout_ms: int = 2000
    """A follower stands for election if it could not fetch for so long; a leader resigns after one and a half times."""
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    auto_join: bool = False
    """A controller that is no voter asks to be added."""
    fetch_max_wait_ms: int = 500

    @property
    def check_quorum_ms(self) -> int:
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_ms(self) -> int:
        """How often a leader reminds those who do not fetch."""
        return self.fetch_timeout_ms // 2
