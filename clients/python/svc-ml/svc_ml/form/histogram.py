"""
Histograms: how many values are between which edges. `edges` has one number more than `counts`; each bin holds what is at least
its lower edge and less than its upper one, the last one its upper edge too.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from svc_ml.fault import SvcError
from svc_ml.form.array import is_array, to_array
from svc_ml.number import to_float, to_integer

_BINS_MAX = 10_000


def count_values(values: Any, bins: int) -> dict[str, Any]:
    """
    Counts a list, array or tensor of any shape into `bins` bins of equal width, from the least value to the greatest. Values that
    are NaN or infinite belong to no bin, and are counted as `nonFinite`.
    """
    if not 1 <= bins <= _BINS_MAX:
        raise SvcError(f"bins is {bins}: expected 1 to {_BINS_MAX}.")
    return _count_array(to_array(values), bins) if is_array(values) else _count_list(list(_flatten(values)), bins)


def take_counts(counts: Iterable[Any], edges: Iterable[Any]) -> dict[str, Any]:
    """A histogram that was counted by somebody else."""
    numbers, limits = [to_integer(it) for it in counts], [to_float(it) for it in edges]
    if len(limits) != len(numbers) + 1:
        raise SvcError(f"counts has {len(numbers)} numbers and edges has {len(limits)}: expected one edge more.")
    if min(numbers, default=0) < 0:
        raise SvcError("counts has a number below 0.")
    if not all(math.isfinite(it) for it in limits) or any(low >= high for low, high in zip(limits, limits[1:])):
        raise SvcError("edges must be finite, and each greater than the one before.")
    return {"edges": limits, "counts": numbers, "count": sum(numbers)}


def _count_array(values: Any, bins: int) -> dict[str, Any]:
    import numpy

    if values.dtype.kind not in "fiub":
        raise SvcError(f"values is an array of {values.dtype.name}, expected numbers.")
    values = values.ravel().astype("float64")
    finite = values[numpy.isfinite(values)]
    if finite.size == 0:
        return _describe([], [], [], values.size)
    least, greatest = float(finite.min()), float(finite.max())
    edges = _to_edges(least, greatest, bins)
    places = numpy.searchsorted(edges, finite, side="right") - 1
    counts = numpy.bincount(places.clip(0, bins - 1), minlength=bins)
    of_all = [least, greatest, float(finite.mean()), float(finite.std())]
    return _describe(edges, counts.tolist(), of_all, values.size - finite.size)


def _count_list(values: list[float], bins: int) -> dict[str, Any]:
    finite = [it for it in values if math.isfinite(it)]
    if not finite:
        return _describe([], [], [], len(values))
    edges = _to_edges(min(finite), max(finite), bins)
    counts = [0] * bins
    for it in finite:
        counts[min(bins, bisect_right(edges, it)) - 1] += 1
    mean = math.fsum(finite) / len(finite)
    deviation = math.sqrt(math.fsum((it - mean) ** 2 for it in finite) / len(finite))
    return _describe(edges, counts, [min(finite), max(finite), mean, deviation], len(values) - len(finite))


def _to_edges(least: float, greatest: float, bins: int) -> list[float]:
    if least == greatest:
        # As wide as a bin can be told from the next one.
        half = max(0.5, abs(least) * 1e-9)
        least, greatest = least - half, greatest + half
    width = (greatest - least) / bins
    if not math.isfinite(width):
        raise SvcError(f"values reach from {least} to {greatest}, which is too far for a histogram.")
    return [*(least + width * it for it in range(bins)), greatest]


def _describe(edges: list[float], counts: list[int], of_all: list[float], not_finite: int) -> dict[str, Any]:
    least, greatest, mean, deviation = (it if math.isfinite(it) else None for it in of_all) if of_all else [None] * 4
    return {
        "edges": edges,
        "counts": counts,
        "count": sum(counts),
        "nonFinite": int(not_finite),
        "min": least,
        "max": greatest,
        "mean": mean,
        "std": deviation,
    }


def _flatten(values: Any) -> Iterable[float]:
    for it in values:
        if isinstance(it, (list, tuple)):
            yield from _flatten(it)
        else:
            yield to_float(it)
