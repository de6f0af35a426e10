"""Random numbers and ids from one generator, seeded by the system or by a simulation."""

import random
from uuid import UUID


class SeededRandom:
    """Randomness from a generator of one's own; the real one is seeded by the system."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator

    def uuid(self) -> UUID:
        return UUID(int=self._generator.getrandbits(128), version=4)

    def below(self, n: int) -> int:
        return self._generator.randrange(n)
