"""Confusion matrices: which class was taken for which, and how often."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from svc_ml.fault import SvcError
from svc_ml.number import to_float, to_integer


def count_classes(
    y_true: Iterable[Any], y_predicted: Iterable[Any], labels: Sequence[str] | None
) -> tuple[list[list[int]], Sequence[str] | None]:
    """
    The matrix, and the names of its classes where these are names. Classes are whole numbers from 0, names, or vectors with a
    score for each class.
    """
    actual, predicted = list(y_true), list(y_predicted)
    if any(isinstance(it, str) for it in actual + predicted):
        labels = _names_of_classes(actual + predicted, labels)
        numbers = {name: number for number, name in enumerate(labels)}
        actual, predicted = [numbers[str(it)] for it in actual], [numbers[str(it)] for it in predicted]
    return _count([_to_class(it) for it in actual], [_to_class(it) for it in predicted], len(labels or ())), labels


def _to_class(value: Any) -> int:
    if hasattr(value, "__len__") and len(value) > 1:
        scores = [to_float(it) for it in value]
        return scores.index(max(scores))
    return to_integer(value)


def _count(actual: list[int], predicted: list[int], classes: int) -> list[list[int]]:
    if len(actual) != len(predicted):
        raise SvcError(f"y_true has {len(actual)} entries and y_predicted has {len(predicted)}: give as many of each.")
    if min(actual + predicted, default=0) < 0:
        raise SvcError("classes are numbered from 0.")
    size = max(classes, max(actual + predicted, default=-1) + 1)
    counts = [[0] * size for _ in range(size)]
    for row, column in zip(actual, predicted):
        counts[row][column] += 1
    return counts


def _names_of_classes(found: list[Any], labels: Sequence[str] | None) -> list[str]:
    names = {str(it) for it in found}
    if labels is None:
        return sorted(names)
    unknown = sorted(names - set(labels))
    if unknown:
        raise SvcError(f"labels has no {unknown[0]!r}, which is a class of y_true or y_predicted: give all classes.")
    return list(labels)
