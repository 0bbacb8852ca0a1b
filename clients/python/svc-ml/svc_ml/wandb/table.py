"""Tables: rows that grow while a script runs, logged as they are at that moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from svc_ml.base_experiment import BaseExperiment
from svc_ml.wandb.absent import tell_absent
from svc_ml.wandb.errors import UsageError
from svc_ml.wandb.media import Shown

_COLUMNS = ("Input", "Output", "Expected")


class Table(Shown):
    """
    columns: names, by default those of `dataframe`, else `Input`, `Output` and `Expected`.
    data: rows, or an array of two dimensions; `dataframe` a data frame of pandas instead.
    """

    def __init__(
        self,
        columns: Sequence[Any] | None = None,
        data: Iterable[Iterable[Any]] | None = None,
        rows: Iterable[Iterable[Any]] | None = None,
        dataframe: Any = None,
        dtype: Any = None,
        optional: Any = True,
        allow_mixed_types: bool = False,
        log_mode: str | None = None,
    ) -> None:
        if dataframe is None and hasattr(data, "columns"):
            dataframe, data = data, None
        if dataframe is not None:
            columns = list(dataframe.columns)
            data = dataframe.values.tolist() if hasattr(dataframe, "values") else dataframe.rows()
        self.columns: list[Any] = list(columns if columns is not None else _COLUMNS)
        self.data: list[list[Any]] = []
        for row in data if data is not None else rows if rows is not None else ():
            self.add_data(*row)

    def add_data(self, *row: Any) -> None:
        """Adds a row, of as many values as there are columns."""
        if len(row) != len(self.columns):
            raise UsageError(f"a row has {len(row)} values: the table has {len(self.columns)} columns, {self.columns}.")
        self.data.append(list(row))

    def add_row(self, *row: Any) -> None:
        self.add_data(*row)

    def add_column(self, name: str, data: Iterable[Any], optional: bool = False) -> None:
        """Adds a column, of as many values as there are rows."""
        values = list(data)
        if not self.columns or not self.data:
            self.data = self.data or [[] for _ in values]
        if len(values) != len(self.data):
            raise UsageError(f"the column {name!r} has {len(values)} values: the table has {len(self.data)} rows.")
        self.columns.append(name)
        for row, value in zip(self.data, values):
            row.append(value)

    def get_column(self, name: str, convert_to: str | None = None) -> Any:
        at = self.columns.index(name)
        values = [row[at] for row in self.data]
        if convert_to == "numpy":
            import numpy

            return numpy.array(values)
        return values

    def get_dataframe(self) -> Any:
        import pandas

        return pandas.DataFrame(self.data, columns=self.columns)

    def iterrows(self) -> Iterator[tuple[int, list[Any]]]:
        return iter(enumerate(self.data))

    def __len__(self) -> int:
        return len(self.data)

    def log_to(self, experiment: BaseExperiment, name: str, step: int) -> None:
        if any(isinstance(it, Shown) for row in self.data for it in row):
            tell_absent("An image, sound or the like in a cell of a Table", "Log it beside the table.")
        rows = [[f"<{type(it).__name__}>" if isinstance(it, Shown) else it for it in row] for row in self.data]
        experiment.log_table(f"{name}.csv", rows, headers=[str(it) for it in self.columns], step=step)
