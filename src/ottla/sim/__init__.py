"""The simulated world: virtual time, a disk that forgets, a network in memory."""
