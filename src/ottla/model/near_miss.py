"""What somebody may have meant who wrote a name that is not there."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(wrong: str, right: Iterable[str], *, cutoff: float = 0.6) -> str:
    """What to put behind a complaint: `; did you mean this or that?`, or nothing where nothing is like it."""
    from difflib import SequenceMatcher, get_close_matches

    close = get_close_matches(wrong, list(right), n=2, cutoff=cutoff)
    likeness = [SequenceMatcher(None, wrong, name).ratio() for name in close]
    told = [name for name, ratio in zip(close, likeness, strict=True) if ratio > max(likeness) - 0.1]
    return f"; did you mean {' or '.join(told)}?" if told else ""
