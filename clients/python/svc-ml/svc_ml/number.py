"""Numbers as trainers have them, in the form in which they are sent."""

from __future__ import annotations

from typing import Any


def to_float(value: Any) -> float:
    """
    A 64-bit float, finite or not, out of a Python number, a numpy scalar, or a tensor or array with one element. An integer
    beyond 2^53 is rounded to the nearest.

    Raises TypeError for everything else: text, more than one element, an integer that no float can be near to.
    """
    number = _to_scalar(value)
    try:
        return float(number)
    except OverflowError:
        raise TypeError from None


def to_integer(value: Any) -> int:
    """
    A whole number of 64 bits, also out of a numpy scalar or a tensor with one element, exact.

    Raises TypeError for everything else.
    """
    number = _to_scalar(value)
    if isinstance(number, float):
        if not number.is_integer():
            raise TypeError
        number = int(number)
    if not -(2**63) <= number < 2**63:
        raise TypeError
    return number


def _to_scalar(value: Any) -> float | int:
    # numpy and torch have `item`; asking for it imports neither.
    item = getattr(value, "item", None)
    if callable(item):
        try:
            value = item()
        except (ValueError, RuntimeError):
            raise TypeError from None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (str, bytes, complex)) or not hasattr(value, "__float__"):
        raise TypeError
    return float(value)
