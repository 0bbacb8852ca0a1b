"""Arrays and tensors, without importing the framework that they are of."""

from __future__ import annotations

from typing import Any

from svc_ml.fault import SvcError


def is_array(data: Any) -> bool:
    """True of arrays and tensors, false of lists and numbers."""
    return hasattr(data, "__array__") or hasattr(data, "detach")


def to_array(data: Any) -> Any:
    """
    A numpy array of an array, a tensor on any device, or a list.

    Raises SvcError without numpy.
    """
    try:
        import numpy
    except ImportError:
        raise SvcError("arrays need numpy: pip install numpy.") from None
    if hasattr(data, "detach"):
        data = data.detach().cpu()
        try:
            return numpy.asarray(data)
        except TypeError:
            # bfloat16, which numpy does not have.
            data = data.float()
    return numpy.asarray(data)
