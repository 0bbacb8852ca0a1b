"""Scenes: points in space and boxes around them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from svc_ml.fault import SvcError
from svc_ml.form.array import is_array, to_array
from svc_ml.number import to_float


def to_scene(points: Any, boxes: Sequence[Mapping[str, Any]] | None) -> dict[str, Any]:
    """Raises SvcError for points that are not three or six finite numbers each."""
    if points is None and boxes is None:
        raise SvcError("give points or boxes.")
    given = [] if points is None else to_array(points).tolist() if is_array(points) else points
    rows = [[to_float(it) for it in row] for row in given]
    odd = next((it for it in rows if len(it) not in (3, 6) or not all(map(math.isfinite, it))), None)
    if odd is not None:
        raise SvcError(f"a point is {odd}, expected [x, y, z] or [x, y, z, red, green, blue], all of them finite.")
    return {"points": rows, "boxes": [dict(it) for it in boxes or ()]}
