"""Charts of data that a script has: curves and confusion matrices are drawn, of others the data is logged as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from svc_ml.base_experiment import BaseExperiment
from svc_ml.wandb.absent import Absent
from svc_ml.wandb.media import Shown
from svc_ml.wandb.table import Table


class Curves(Shown):
    """Lines by name, each of xs and ys."""

    def __init__(self, lines: dict[str, tuple[list[Any], list[Any]]]) -> None:
        self._lines = lines

    def log_to(self, experiment: BaseExperiment, name: str, step: int) -> None:
        for line, (xs, ys) in self._lines.items():
            experiment.log_curve(f"{name}/{line}" if line else name, xs, ys, step=step)


class ConfusionMatrix(Shown):
    def __init__(
        self, y_true: Iterable[Any], predicted: Iterable[Any], names: Sequence[str] | None, title: str
    ) -> None:
        self._given = (list(y_true), list(predicted))
        self._names = names
        self._title = title

    def log_to(self, experiment: BaseExperiment, name: str, step: int) -> None:
        experiment.log_confusion_matrix(
            *self._given, labels=self._names, title=self._title, file_name=f"{name}.json", step=step
        )


def line(table: Table, x: str, y: str, stroke: str | None = None, title: str = "", split_table: bool = False) -> Shown:
    """The column `y` over the column `x`; one line for each value of the column `stroke`."""
    xs, ys = table.get_column(x), table.get_column(y)
    groups = [""] * len(xs) if stroke is None else [str(it) for it in table.get_column(stroke)]
    lines: dict[str, tuple[list[Any], list[Any]]] = {}
    for group, at, value in zip(groups, xs, ys):
        found = lines.setdefault(group, ([], []))
        found[0].append(at)
        found[1].append(value)
    return Curves(lines)


def line_series(
    xs: Sequence[Any],
    ys: Sequence[Sequence[Any]],
    keys: Sequence[str] | None = None,
    title: str = "",
    xname: str = "x",
    split_table: bool = False,
) -> Shown:
    """A line for each of `ys`, over one list of x for all, or one for each."""
    own = bool(xs) and isinstance(xs[0], (list, tuple))
    names = list(keys) if keys is not None else [f"line_{at}" for at in range(len(ys))]
    return Curves({name: (list(xs[at] if own else xs), list(ys[at])) for at, name in enumerate(names)})


def confusion_matrix(
    probs: Any = None,
    y_true: Iterable[Any] | None = None,
    preds: Any = None,
    class_names: Sequence[str] | None = None,
    title: str = "Confusion Matrix",
    split_table: bool = False,
) -> Shown:
    """probs: a score for each class; preds: the classes themselves instead, as whole numbers."""
    predicted = preds if preds is not None else probs
    if y_true is None or predicted is None:
        raise ValueError("confusion_matrix: give y_true, and preds or probs.")
    return ConfusionMatrix(y_true, predicted, class_names, title)


def scatter(table: Table, x: str, y: str, title: str = "", split_table: bool = False) -> Shown:
    return _columns(table, x, y)


def bar(table: Table, label: str, value: str, title: str = "", split_table: bool = False) -> Shown:
    return _columns(table, label, value)


def histogram(table: Table, value: str, title: str = "", split_table: bool = False) -> Shown:
    return _columns(table, value)


def _columns(table: Table, *names: str) -> Table:
    return Table(columns=list(names), data=zip(*(table.get_column(it) for it in names)))


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return Absent(f"wandb.plot.{name}")
