"""What reads return: rows with named columns, to be taken as one likes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from svc_ml.read import frames
from svc_ml.read.column import Column

if TYPE_CHECKING:
    import pandas
    import polars

_ROWS_AT_ONCE = 1_000
_ROWS_SHOWN = 5
_COLUMNS_SHOWN = 8
_CHARACTERS_SHOWN = 32


class Table:
    """
    Rows in the order in which the service has them. What a run or a point does not have is None.

    Numbers are exact: NaN, the infinities, -0.0 and integers of 64 bits too. Times are in UTC, to the millisecond.
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return list(self._columns)

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Each column as a list."""
        return {name: it[:] for name, it in self._columns.items()}

    def rows(self) -> list[dict[str, Any]]:
        return list(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Times have the zone UTC; integers with missing places are Int64, a missing float is NaN."""
        return frames.to_pandas(self._columns)

    def to_polars(self) -> polars.DataFrame:
        """What is missing is null, which is not NaN."""
        return frames.to_polars(self._columns)

    def to_numpy(self) -> dict[str, Any]:
        """An array for each column. Integers with missing places are masked arrays; a missing float is NaN."""
        return frames.to_numpy(self._columns)

    def __getitem__(self, name: str) -> list[Any]:
        """The values of one column."""
        return self._columns[name][:]

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for start in range(0, len(self), _ROWS_AT_ONCE):
            part = [it[start : start + _ROWS_AT_ONCE] for it in self._columns.values()]
            for values in zip(*part):
                yield dict(zip(self._columns, values))

    def __repr__(self) -> str:
        names = self.names[:_COLUMNS_SHOWN]
        cells = [[name, *map(_show, self._columns[name][:_ROWS_SHOWN])] for name in names]
        widths = [max(map(len, it)) for it in cells]
        lines = ["  ".join(it.ljust(width) for it, width in zip(line, widths)).rstrip() for line in zip(*cells)]
        if len(self) > _ROWS_SHOWN:
            lines.append("...")
        more = self.names[_COLUMNS_SHOWN:]
        if more:
            lines.append(f"and the columns {', '.join(more)}")
        rows = f"{len(self):,} row{'' if len(self) == 1 else 's'}"
        return "\n".join([f"{rows}, {len(self.names)} columns", *lines])


def _show(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    text = ", ".join(value) if isinstance(value, list) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _CHARACTERS_SHOWN else text[: _CHARACTERS_SHOWN - 3] + "..."
