"""Histograms as ours have them: rising edges, one more than counts."""

from __future__ import annotations

import math
from typing import Any


def from_buckets(least: float, greatest: float, limits: list[float], counts: list[float]) -> dict[str, Any] | None:
    """
    Buckets by their upper limits. The first one begins at the least value; the last one ends at the greatest, where its limit is
    the largest number that there is. None when the edges are of no use.
    """
    if not limits or len(limits) != len(counts):
        return None
    upper = list(limits)
    if counts[0] == 0 and len(upper) > 1:
        # Its limit is the lower edge of the second.
        edges, kept = upper, list(counts[1:])
    else:
        first = least if least < upper[0] else _before(upper[0])
        edges, kept = [first, *upper], list(counts)
    if edges[-1] >= 1e300:
        while len(kept) > 1 and kept[-1] == 0:
            edges.pop()
            kept.pop()
        if edges[-1] >= 1e300 and edges[-2] < greatest < edges[-1]:
            edges[-1] = greatest
    return _to_histogram(edges, kept)


def from_rows(rows: list[list[float]]) -> dict[str, Any] | None:
    """Rows of lower edge, upper edge and count."""
    if not rows or any(len(it) != 3 for it in rows):
        return _to_histogram([], [])
    if len(rows) == 1 or all(low == high for low, high, _ in rows):
        # All values are the same.
        low, count = rows[0][0], sum(it[2] for it in rows)
        half = max(0.5, abs(low) * 1e-9)
        return _to_histogram([low - half, low + half], [count]) if rows[0][0] == rows[0][1] else _of(rows)
    return _of(rows)


def _of(rows: list[list[float]]) -> dict[str, Any] | None:
    return _to_histogram([*(it[0] for it in rows), rows[-1][1]], [it[2] for it in rows])


def _to_histogram(edges: list[float], counts: list[float]) -> dict[str, Any] | None:
    if not all(map(math.isfinite, edges)) or any(low >= high for low, high in zip(edges, edges[1:])):
        return None
    whole = [int(it) if it == int(it) else it for it in counts]
    return {"edges": edges, "counts": whole, "count": sum(whole)}


def _before(edge: float) -> float:
    return edge - max(0.5, abs(edge) * 1e-9)
