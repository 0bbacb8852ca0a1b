"""An event, or the labels of one, as it travels: checked and written as JSON where it is logged, so that what the
caller does with its dictionaries afterwards changes nothing, and the size of what waits is known."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Union

Scalar = Union[str, bool, int, float, None]

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_PLAIN = frozenset((str, bool, int, type(None)))

# Seconds outside of these are milliseconds that were taken for seconds, or the other way round. The service knows times
# from 1973 to 5138.
_SECONDS_MIN = 1e8
_SECONDS_MAX = 1e11

_OVERHEAD_BYTES = 200
"""What the objects around the bytes of an item take, roughly."""


class InvalidEvent(ValueError):
    """What was given cannot be an event; the message names the argument and says what is expected."""


class Item(NamedTuple):
    """An event or labels, ready to be sent."""

    prediction_id: str
    json: bytes
    """The fields as they stand in a JSON object, without its opening brace: the model's are written before them."""

    @property
    def size(self) -> int:
        """In bytes, as the queue counts."""
        return len(self.json) + _OVERHEAD_BYTES


def make_event(
    prediction_id: object,
    input_features: Mapping[str, Any] | None,
    output_value: object,
    output_probability: object,
    output_features: Mapping[str, Any] | None,
    labels: Mapping[str, Any] | None,
    timestamp: object,
) -> Item:
    """
    Makes an event of the arguments of `log_event`.

    Raises InvalidEvent.
    """
    identity = _to_id(prediction_id)
    prediction = _to_scalars("output_features", output_features)
    if output_value is not None:
        _put(prediction, "value", to_scalar("output_value", output_value), "output_value")
    if output_probability is not None:
        _put(prediction, "probability", _to_probability(output_probability), "output_probability")
    # Features are there even when there are none: an item with nothing but labels would be taken for labels alone.
    fields: dict[str, Any] = {
        "predictionId": identity,
        "timestamp": to_milliseconds(timestamp),
        "features": _to_scalars("input_features", input_features),
    }
    if prediction:
        fields["prediction"] = prediction
    if labels is not None:
        fields["labels"] = _to_scalars("labels", labels)
    return Item(identity, _encode(fields)[1:].encode())


def make_labels(prediction_id: object, label: object, labels: Mapping[str, Any] | None, timestamp: object) -> Item:
    """
    Makes labels of the arguments of `log_label`.

    Raises InvalidEvent.
    """
    identity = _to_id(prediction_id)
    given = _to_scalars("labels", labels)
    if label is not None:
        _put(given, "value", to_scalar("label", label), "label")
    if all(it is None for it in given.values()):
        raise InvalidEvent("labels: there is none: pass a dictionary of names and values")
    fields = {"predictionId": identity, "timestamp": to_milliseconds(timestamp), "labels": given}
    return Item(identity, _encode(fields)[1:].encode())


def to_scalar(name: str, value: Any) -> Scalar:
    """
    A value as the service keeps it: integers, floats, booleans and strings, those of numpy and pandas as well. None,
    NaN, `pandas.NA` and `pandas.NaT` are values that are missing.

    Raises InvalidEvent.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value  # type: ignore[no-any-return]
    if kind is float:
        # False for NaN and the infinities only.
        if value - value == 0.0:
            return value  # type: ignore[no-any-return]
        if value == value:
            raise InvalidEvent(f"{name}: is infinite, which no event can hold: give None where there is no value")
        return None
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return to_scalar(name, float(value))
    if is_missing(value):
        return None
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        plain = value.item()
        # The widest floats of numpy are no plain float even then.
        return to_scalar(name, float(plain) if type(plain) is kind else plain)
    raise InvalidEvent(f"{name}: expected an integer, a float, a boolean or a string, not {_describe(value)}")


def is_missing(value: Any) -> bool:
    """True for None, NaN, `pandas.NA` and `pandas.NaT`; pandas need not be there."""
    if value is None:
        return True
    if isinstance(value, float):
        return value != value
    kind = type(value)
    return kind.__name__ in ("NAType", "NaTType") and kind.__module__.startswith("pandas")


def to_milliseconds(timestamp: Any) -> int:
    """
    Milliseconds since the Unix epoch, of seconds; now, where there are none.

    Raises InvalidEvent.
    """
    if timestamp is None:
        return time.time_ns() // 1_000_000
    seconds = to_scalar("timestamp", timestamp)
    if seconds is None or isinstance(seconds, (bool, str)):
        raise InvalidEvent(f"timestamp: expected seconds since the Unix epoch (UTC), not {_describe(timestamp)}")
    if not _SECONDS_MIN <= seconds < _SECONDS_MAX:
        hint = " (milliseconds, it seems: divide them by 1000)" if seconds >= _SECONDS_MAX else ""
        raise InvalidEvent(
            f"timestamp: expected seconds since the Unix epoch (UTC), between 1973 and 5138, not {seconds:.15g}{hint}"
        )
    return round(seconds * 1000)


def _to_id(prediction_id: Any) -> str:
    if isinstance(prediction_id, str):
        identity = str.__str__(prediction_id)
    else:
        number = to_scalar("prediction_id", prediction_id)
        if isinstance(number, (bool, float)) or number is None:
            raise InvalidEvent(f"prediction_id: expected a string, not {_describe(prediction_id)}")
        identity = str(number)
    if identity == "":
        raise InvalidEvent("prediction_id: must not be empty")
    return identity


def _to_scalars(argument: str, given: Any) -> dict[str, Scalar]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidEvent(f"{argument}: expected a dictionary of names and values, not {_describe(given)}")
    scalars: dict[str, Scalar] = {}
    for name, value in given.items():
        if type(name) is not str and not isinstance(name, str):
            raise InvalidEvent(f"{argument}: names must be strings, not {name!r}")
        kind = type(value)
        # Most values are plain; the name of one that is not is only written then.
        if kind in _PLAIN or (kind is float and value - value == 0.0):
            scalars[name] = value
        else:
            scalars[name] = to_scalar(f"{argument}[{name!r}]", value)
    return scalars


def _to_probability(given: Any) -> Scalar:
    probability = to_scalar("output_probability", given)
    if probability is None:
        return None
    if isinstance(probability, (bool, str)) or not 0 <= probability <= 1:
        raise InvalidEvent(f"output_probability: must be a number from 0 to 1, not {probability!r}")
    return probability


def _put(scalars: dict[str, Scalar], name: str, value: Scalar, argument: str) -> None:
    if name in scalars:
        raise InvalidEvent(f"{argument}: {name!r} is given a second time, in the dictionary: give it in one place")
    scalars[name] = value


def _describe(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} ({text if len(text) <= 60 else text[:57] + '...'})"
