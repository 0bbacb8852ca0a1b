"""Columns as numpy, pandas and polars have them. Each is imported when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from svc_ml.fault import SvcError
from svc_ml.read.column import Column

if TYPE_CHECKING:
    import pandas
    import polars


def to_numpy(columns: dict[str, Column]) -> dict[str, Any]:
    """Integers with missing places are masked arrays; a missing float is NaN, a missing time NaT."""
    try:
        import numpy as np
    except ImportError:
        raise _missing("numpy") from None
    arrays: dict[str, Any] = {}
    for name, column in columns.items():
        stored, missing = _buffers(np, column)
        if column.kind == "integer" and missing.any():
            stored = np.ma.MaskedArray(stored, mask=missing)
        elif column.kind == "time":
            stored = stored.astype("datetime64[ms]")
            stored[missing] = "NaT"
        elif column.kind == "float":
            stored[missing] = np.nan
        arrays[name] = stored
    return arrays


def to_pandas(columns: dict[str, Column]) -> pandas.DataFrame:
    try:
        import numpy as np
        import pandas as pd
    except ImportError:
        raise _missing("pandas") from None

    def to_series(column: Column) -> Any:
        stored, missing = _buffers(np, column)
        if column.kind == "boolean":
            return pd.Series(column[:], dtype="boolean" if column.has_missing else "bool")
        if column.kind == "integer" and missing.any():
            return pd.Series(pd.arrays.IntegerArray(stored, missing))
        if column.kind == "time":
            stored = stored.astype("datetime64[ms]")
            stored[missing] = "NaT"
            return pd.Series(stored).dt.tz_localize("UTC")
        if column.kind == "float":
            stored[missing] = np.nan
        return pd.Series(stored)

    return pd.DataFrame({name: to_series(it) for name, it in columns.items()})


def to_polars(columns: dict[str, Column]) -> polars.DataFrame:
    try:
        import polars as pl
    except ImportError:
        raise _missing("polars") from None
    types: dict[str, Any] = {
        "text": pl.String,
        "integer": pl.Int64,
        "float": pl.Float64,
        "boolean": pl.Boolean,
        "time": pl.Int64,
        "texts": pl.List(pl.String),
    }

    def to_series(name: str, column: Column) -> polars.Series:
        stored: Any = list(column.stored)
        if column.missing is not None and column.has_missing:
            stored = [None if gone else it for it, gone in zip(stored, column.missing)]
        series = pl.Series(name, stored, dtype=types[column.kind])
        return series.cast(pl.Datetime("ms", "UTC")) if column.kind == "time" else series

    return pl.DataFrame([to_series(name, it) for name, it in columns.items()])


def _buffers(np: Any, column: Column) -> tuple[Any, Any]:
    """Copies as arrays: the values, and where numbers are missing (None for other kinds)."""
    if column.missing is None:
        stored = np.empty(len(column), dtype=object)
        for at, value in enumerate(column.stored):
            # One by one: numpy would look into lists.
            stored[at] = value
        return stored, None
    dtype = np.float64 if column.kind == "float" else np.int64
    return np.array(column.stored, dtype=dtype), np.array(column.missing, dtype=np.uint8).astype(bool)


def _missing(package: str) -> SvcError:
    return SvcError(f"{package} is not installed: pip install {package}. rows() and columns need nothing.")
