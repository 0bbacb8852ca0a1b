"""Points of histories that others may come in between are known by what they are, in any order."""

from __future__ import annotations

import math
import random
from typing import Any, Optional

import pytest

from ml_imports import bits
from svc_ml.importers.items import Points
from svc_ml.importers.series import SeenSeries, split_by_steps

Row = tuple[float, Optional[int], Optional[int], Optional[int]]
STEPS = [None, 0, 1, 2, 3, 7, 8, -1, 2**32 - 1, 2**32, 2**40]


def to_points(rows: list[Row]) -> Points:
    values, steps, times, epochs = map(list, zip(*rows))
    return Points("stream", "loss", "", values, steps, times, epochs)  # type: ignore[arg-type]


def choose_rows(choose: random.Random, count: int) -> list[Row]:
    values = [0.5, 0.0, -0.0, math.nan, math.inf]
    return [(choose.choice(values), choose.choice(STEPS), choose.choice([1, 2]), None) for _ in range(count)]


def identities(points: Points) -> set[Any]:
    found = []
    for equals, first, part in split_by_steps(points):
        assert part.steps is not None and part.timestamps is not None
        assert first >= 0 and first + len(part.values) <= 2**32
        rows = zip(part.values, part.steps, part.timestamps)
        found += [(equals, first + at, bits(value), step, ms) for at, (value, step, ms) in enumerate(rows)]
    assert len(set(found)) == len(found) == len(points.values)
    return set(found)


@pytest.mark.parametrize("seed", range(20))
def test_a_point_is_the_same_in_any_order_and_others_beside_it(seed: int) -> None:
    choose = random.Random(seed)
    rows = choose_rows(choose, choose.randrange(1, 200))
    whole = SeenSeries().find_new(to_points(rows))
    assert whole is not None
    shuffled = choose.sample(rows, len(rows))
    again = SeenSeries().find_new(to_points(shuffled))
    assert again is not None and identities(again) == identities(whole)
    more = choose.sample(shuffled + choose_rows(choose, 50), len(rows) + 50)
    grown = SeenSeries().find_new(to_points(more))
    assert grown is not None and identities(grown) > identities(whole)


def test_points_of_following_steps_travel_together() -> None:
    points = to_points([(step / 7, step, 1_000 + step, None) for step in range(10_000)])
    whole = SeenSeries().find_new(points)
    assert whole is not None and len(list(split_by_steps(whole))) == 1


def test_only_what_is_new_is_read_again() -> None:
    rows: list[Row] = [(step / 7, step, 1_000 + step, step // 10) for step in range(100)]
    seen = SeenSeries()
    assert seen.find_new(to_points(rows)) is not None
    assert seen.find_new(to_points(rows)) is None
    new = seen.find_new(to_points([*rows, (1.0, 100, 2_000, 10), rows[0]]))
    assert new is not None
    assert new.steps == [100, 0] and new.equals_before == [0, 1] and new.epochs == [10, 0]
    in_between = seen.find_new(to_points([rows[0], (1.0, 1, 1_000, 0), *rows[1:]]))
    assert in_between is not None and len(in_between.values) == 101
