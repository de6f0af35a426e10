"""What the node may import of the work: the rest, and numba with it, is loaded where the work is done."""

from __future__ import annotations

from ottla.env.ports import Workplace
from ottla.log.cleaning.contract import Contract, Outcome


def begin_cleaning(place: Workplace, contract: Contract) -> Outcome:
    from ottla.log.cleaning.work import clean

    place.come_last()
    return clean(place, contract)


def compile_kernels(place: Workplace, _: None) -> None:
    """In a process that ends after it if there was anything to compile: that takes more memory than cleaning.

    It takes its turn like others: on a busy machine the first cleaning would else wait for it for minutes.
    """
    from ottla.log.cleaning.warming import warm_up

    if warm_up():
        place.retire()
