"""A list of things that can be used, and be shown and taken as a table too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from svc_ml.read.table import Table

if TYPE_CHECKING:
    import pandas
    import polars

T = TypeVar("T")


class Records(Generic[T]):
    """What is at a place is a thing; `rows`, `columns` and frames say the same of all as a table."""

    def __init__(self, things: Sequence[T], table: Table) -> None:
        self._things = list(things)
        self.table = table

    def __getitem__(self, at: int) -> T:
        return self._things[at]

    def __len__(self) -> int:
        return len(self._things)

    def __iter__(self) -> Iterator[T]:
        return iter(self._things)

    @property
    def columns(self) -> dict[str, list[Any]]:
        return self.table.columns

    def rows(self) -> list[dict[str, Any]]:
        return self.table.rows()

    def to_pandas(self) -> pandas.DataFrame:
        return self.table.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        return self.table.to_polars()

    def __repr__(self) -> str:
        return repr(self.table)
