"""One column of a table: numbers stand side by side in memory, whatever is installed."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, Union

Kind = Literal["text", "integer", "float", "boolean", "time", "texts"]
"""time: ms since the Unix epoch, UTC. texts: a list of texts in each place."""

_CODES = {"integer": "q", "time": "q", "float": "d"}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Column:
    """Values of one kind, some of which may be missing: that is None, and neither NaN nor 0."""

    def __init__(self, kind: Kind, values: Iterable[Any] = ()) -> None:
        self.kind: Kind = kind
        code = _CODES.get(kind)
        self.stored: Union[list[Any], array[Any]] = [] if code is None else array(code)
        """A number in a missing place is 0."""
        self.missing: bytearray | None = None if code is None else bytearray()
        """1 where a number is missing; None for kinds whose values are None there themselves."""
        self.extend(list(values))

    def extend(self, values: Sequence[Any]) -> None:
        if self.missing is None:
            self.stored.extend(values)
        elif None in values:
            self.missing.extend(it is None for it in values)
            self.stored.extend(0 if it is None else it for it in values)
        else:
            self.missing.extend(bytes(len(values)))
            self.stored.extend(values)

    def append_all(self, other: Column) -> None:
        """Of the same kind."""
        self.stored.extend(other.stored)
        if self.missing is not None and other.missing is not None:
            self.missing.extend(other.missing)

    @property
    def has_missing(self) -> bool:
        return None in self.stored if self.missing is None else 1 in self.missing

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, at: slice) -> list[Any]:
        """Values as Python has them; times are datetimes in UTC."""
        values: list[Any] = list(self.stored[at])
        if self.kind == "time":
            values = [_EPOCH + timedelta(milliseconds=it) for it in values]
        if self.missing is None or 1 not in self.missing:
            return values
        return [None if gone else it for it, gone in zip(values, self.missing[at])]


def number_column(values: Sequence[Any]) -> Column:
    """Of ints and floats, and None: of integers when all are, and have 64 bits."""
    are_integers = all(it is None or (isinstance(it, int) and -(2**63) <= it < 2**63) for it in values)
    return Column("integer" if are_integers else "float", values)
