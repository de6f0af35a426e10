"""The whole work of one cleaning, as it is done in a process beside the node.

Two passes: the newest offset of every key goes into a map; then segments are copied, group by group, without what the
map says is replaced. Each group is told of when its files are durable, and the node puts them in their place while the
next one is being made.
"""

from __future__ import annotations

from ottla.env.ports import Workplace
from ottla.log.cleaning.contract import Contract, Outcome
from ottla.log.cleaning.filtering import Filtering
from ottla.log.cleaning.grouping import groups
from ottla.log.cleaning.offset_map import build_map
from ottla.log.cleaning.pieces import Pace


def clean(place: Workplace, contract: Contract) -> Outcome:
    outcome = Outcome()
    began = place.elapsed()
    pace = Pace(place, contract.limits.bytes_per_second)
    chart = build_map(place, contract, pace, outcome)
    outcome.end_offset = chart.latest + 1
    outcome.map_utilization = chart.utilization
    outcome.map_s = place.elapsed() - began
    filtering = Filtering(place, contract, chart, pace, outcome)
    sources = [source for source in contract.sources if source.base_offset < outcome.end_offset]
    for group in groups(sources, contract.bound, contract.segment_bytes, contract.index_bytes):
        place.tell(filtering.clean(group))
    outcome.elapsed_s = place.elapsed() - began
    return outcome
