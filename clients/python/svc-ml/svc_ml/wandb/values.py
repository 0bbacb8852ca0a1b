"""What becomes of a value that a script logs, by its kind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from svc_ml.base_experiment import BaseExperiment
from svc_ml.form.array import is_array, to_array
from svc_ml.number import to_float
from svc_ml.wandb.absent import Absent, tell_absent
from svc_ml.wandb.media import Histogram, Image, Shown


def flatten(values: Mapping[Any, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Dictionaries within are spread out, their names joined by `.`."""
    for name, value in values.items():
        whole = f"{before}{name}"
        if isinstance(value, Mapping):
            yield from flatten(value, f"{whole}.")
        else:
            yield whole, value


def to_number(value: Any) -> Optional[float]:
    """None of everything that is no number."""
    try:
        return value if type(value) is float else to_float(value)
    except TypeError:
        return None


def log_value(experiment: BaseExperiment, name: str, value: Any, step: int) -> None:
    """Logs everything that is no number: see docs/wandb.md."""
    shown = to_shown(value)
    if shown is not None:
        shown.log_to(experiment, name, step)
    elif value is None or isinstance(value, Absent):
        return
    elif isinstance(value, str):
        experiment.log_other(name, value)
    elif hasattr(value, "savefig") or hasattr(value, "to_html"):
        experiment.log_figure(name, value, step=step)
    elif isinstance(value, Sequence):
        for at, it in enumerate(value):
            if to_shown(it) is None:
                experiment.log_other(name, str(list(value)))
                return
            log_value(experiment, f"{name}/{at}", it, step)
    else:
        tell_absent(f"log of a {type(value).__name__}", "It is logged as text.")
        experiment.log_other(name, str(value))


def to_shown(value: Any) -> Shown | None:
    if isinstance(value, Shown):
        return value
    if hasattr(value, "save") and hasattr(value, "getbands"):
        return Image(value)
    if is_array(value) and math.prod(to_array(value).shape) > 1:
        return Histogram(value)
    return None
