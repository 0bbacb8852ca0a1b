"""Payloads of one length side by side, with numpy, so that what is done to one is done to all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any


class Columns:
    """`bytes[n]` are the bytes at n of all payloads."""

    def __init__(self, data: bytes, starts: Sequence[int], length: int) -> None:
        self._numpy = numpy = find_numpy()
        every = numpy.frombuffer(data, dtype="uint8")
        windows = numpy.lib.stride_tricks.sliding_window_view(every, length)
        self.bytes = numpy.ascontiguousarray(windows[numpy.asarray(starts)].T)
        self._constant = (self.bytes == self.bytes[:, :1]).all(axis=1).tolist()

    def __len__(self) -> int:
        return int(self.bytes.shape[1])

    def is_constant(self, at: int) -> bool:
        return bool(self._constant[at])

    def read(self, form: str, at: int) -> Any:
        """The numbers of this format of numpy that begin at `at`."""
        size = self._numpy.dtype(form).itemsize
        return self._numpy.ascontiguousarray(self.bytes[at : at + size].T).view(form)[:, 0]


@lru_cache(None)
def find_numpy() -> Any:
    """None where it is not installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy
