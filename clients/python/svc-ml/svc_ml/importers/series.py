"""
Series whose points have no order that lasts, such as a history by time, into which others may come later. Their points are told
apart by what they are: value, step, time and epoch; of equal ones by how many came before.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple, Optional

from svc_ml.importers.items import Points

_PLACES = 2**32


class _Seen(NamedTuple):
    points: int
    digest: bytes


class SeenSeries:
    """What was read of the series of a run before."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], _Seen] = {}

    def find_new(self, whole: Points) -> Optional[Points]:
        """
        Of all points of a series those that have come since it was here before: what follows when it begins as it did then, else all
        of it. None when there are none.
        """
        series = (whole.name, whole.context)
        before = self._seen.get(series, _Seen(0, b""))
        self._seen[series] = _Seen(len(whole.values), _to_digest(whole, len(whole.values)))
        start = before.points if _to_digest(whole, before.points) == before.digest else 0
        if start == len(whole.values):
            return None
        return whole._replace(equals_before=_count_equals(whole)).part(range(start, len(whole.values)))


def split_by_steps(points: Points) -> Iterator[tuple[int, int, Points]]:
    """
    Parts of points that have `equals_before`, each with that number and the index of its first point, which together with the
    points themselves are their identity. Points of following steps are one part, since indexes follow each other too.
    """
    steps = points.steps or [None] * len(points.values)
    equals = points.equals_before or [0] * len(steps)
    order = sorted(range(len(steps)), key=lambda at: (equals[at], steps[at] is not None, steps[at] or 0))
    begin = 0
    for end in range(1, len(order) + 1):
        if end < len(order) and _follows(steps[order[end - 1]], steps[order[end]], equals, order[end - 1 : end + 1]):
            continue
        first = order[begin]
        yield equals[first], (steps[first] or 0) % _PLACES, points.part(order[begin:end])
        begin = end


def _follows(step: Optional[int], following: Optional[int], equals: list[int], places: list[int]) -> bool:
    is_next = step is not None and following == step + 1 and following % _PLACES != 0
    return is_next and equals[places[0]] == equals[places[1]]


def _count_equals(points: Points) -> list[int]:
    # By their bits: NaN is equal to nothing, and 0 to -0.
    bits = memoryview(array("d", points.values).tobytes()).cast("q")
    rows = list(
        zip(bits, points.steps or repeat(None), points.timestamps or repeat(None), points.epochs or repeat(None))
    )
    if len(set(rows)) == len(rows):
        return [0] * len(rows)
    counts: dict[object, int] = {}
    found = []
    for row in rows:
        found.append(counts.get(row, 0))
        counts[row] = found[-1] + 1
    return found


def _to_digest(points: Points, count: int) -> bytes:
    if count > len(points.values):
        return b"shorter"
    if count == 0:
        return b""
    digest = hashlib.blake2b(array("d", points.values[:count]).tobytes(), digest_size=16)
    for column in (points.steps, points.timestamps, points.epochs):
        digest.update(repr(column and column[:count]).encode())
    return digest.digest()
