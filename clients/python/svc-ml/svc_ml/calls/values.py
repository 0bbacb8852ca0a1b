"""The calls that log values: metrics, parameters, others, tags and documents; and where in the run they belong."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from svc_ml.calls.context import context_of, entered
from svc_ml.calls.guard import never_raises
from svc_ml.fault import SvcError
from svc_ml.form.digest import to_digest
from svc_ml.number import to_float, to_integer
from svc_ml.run import Run, now_ms

_now = time.time
_AXIS_OF = "x axis of "
"""Begins the name of an other by which the interface finds the x axis of a metric."""
_LOW, _HIGH = -(2**63), 2**63 - 1
Kind = TypeVar("Kind", bound="ValueCalls")


class ValueCalls:
    """Each call takes microseconds: nothing is sent or written by it."""

    _run: Run

    def log_metric(
        self, name: str, value: Any, step: Any = None, epoch: Any = None, include_context: bool = True
    ) -> None:
        """
        Logs one point of a metric. Takes microseconds: nothing is sent or written by this call.

        value: a number, NaN and the infinities included, a numpy scalar, or a tensor with one element.
        step, epoch: whole numbers of 64 bits; without, those of `set_step` and `set_epoch`.
        """
        run = self._run
        channel = run.channel
        if channel is None:
            return
        try:
            point = (
                name if type(name) is str else str(name),
                context_of(run) if include_context else "",
                value if type(value) is float else to_float(value),
                run.step if step is None else step if type(step) is int and _LOW <= step <= _HIGH else to_integer(step),
                run.epoch
                if epoch is None
                else epoch
                if type(epoch) is int and _LOW <= epoch <= _HIGH
                else to_integer(epoch),
                int(_now() * 1000),
            )
        except Exception:
            self._refuse_point(name, value, step, epoch)
            return
        if channel.is_closed:
            run.tell_late("log_metric")
            return
        points = channel.points
        points.append(point)
        if channel.is_idle:
            channel.wake()
        if len(points) > channel.points_max:
            channel.make_room()

    def _refuse_point(self, name: Any, value: Any, step: Any, epoch: Any) -> None:
        for field, given, convert in (
            ("value", value, to_float),
            ("step", step, to_integer),
            ("epoch", epoch, to_integer),
        ):
            try:
                if given is not None or field == "value":
                    convert(given)
            except Exception:
                what = "a number" if field == "value" else "a whole number of 64 bits"
                message = f"log_metric {name!r}: {field} is {_shorten(given)}, expected {what}; this point is left out."
                self._run.faults.add(message, data_affected=f"metric {name}", once=f"no number {name} {field}")
                return

    @never_raises
    def log_metrics(
        self,
        dic: Mapping[str, Any],
        prefix: str | None = None,
        step: Any = None,
        epoch: Any = None,
        include_context: bool = True,
    ) -> None:
        """
        Logs a point of each metric, all at the same step. A dictionary within is spread out, its names joined by `/`:
        `{"train": {"loss": 1}}` is the metric `train/loss`.

        prefix: stands before each name, with `_` between.
        """
        for name, value in dic.items():
            whole = f"{prefix}_{name}" if prefix else name
            for path, number in _leaves(whole, value):
                self.log_metric(path, number, step, epoch, include_context)

    @never_raises
    def log_parameter(self, name: str, value: Any, step: Any = None) -> None:
        """Logs a parameter; the last value is kept. A mapping becomes one parameter for each of its entries."""
        if _is_mapping(value):
            self.log_parameters(value, prefix=name, step=step)
            return
        body: dict[str, Any] = {"parameterName": str(name), "parameterValue": to_text(value), "timestamp": now_ms()}
        at = self._run.step if step is None else to_integer(step)
        if at is not None:
            body["step"] = at
        self._run.call("/write/experiment/parameter", body)

    @never_raises
    def log_parameters(
        self, parameters: Any, prefix: str | None = None, nested_support: bool = True, step: Any = None
    ) -> None:
        """
        Logs parameters: a mapping, an `argparse.Namespace` or a dataclass. With `nested_support` one within is spread out, its
        names joined by `|`.
        """
        for name, value in _to_mapping(parameters).items():
            whole = f"{prefix}|{name}" if prefix else str(name)
            if nested_support and _is_mapping(value):
                self.log_parameters(value, prefix=whole, step=step)
            else:
                self.log_parameter(whole, to_text(value), step)

    @never_raises
    def log_dataset_hash(self, data: Any) -> None:
        """
        Logs the parameter `dataset_hash`, by which runs on the same data are found: 32 hexadecimal digits of the SHA-256 of the content
        of a `Path` (a file, or the files of a folder with their names), of bytes, of an array or tensor with its shape and type, of
        a data frame of pandas or polars, else of what `str` makes of `data`.
        """
        self.log_parameter("dataset_hash", to_digest(data))

    @never_raises
    def log_other(self, key: str, value: Any) -> None:
        """Logs anything else by name; the last value is kept."""
        self._run.call("/write/experiment/log-other", {"key": str(key), "value": to_text(value), "timestamp": now_ms()})

    @never_raises
    def log_others(self, dictionary: Mapping[str, Any]) -> None:
        for key, value in dictionary.items():
            self.log_other(key, value)

    @never_raises
    def add_tag(self, tag: str) -> None:
        self.add_tags([tag])

    @never_raises
    def add_tags(self, tags: Iterable[str]) -> None:
        """Adds tags; those that are there stay."""
        self._run.call("/write/experiment/tags", {"addedTags": [str(it) for it in tags]})

    @never_raises
    def set_name(self, name: str) -> None:
        """Renames the experiment."""
        self._run.name = str(name)
        self.log_other("Name", name)

    @never_raises
    def log_html(self, html: str, clear: bool = False) -> None:
        """Adds HTML to the experiment's; with `clear` it takes the place of what was there."""
        self._run.call("/write/experiment/html", {"html": str(html), "override": clear, "timestamp": now_ms()})

    @never_raises
    def log_graph(self, graph: Any, overwrite: bool = True) -> None:
        """Logs the graph of the model, as text or as what `str` makes of it. The service keeps the last one."""
        self._run.call("/write/experiment/graph", {"graph": str(graph)})

    set_model_graph = log_graph

    @never_raises
    def define_metric(self, name: str, step_metric: str) -> None:
        """
        Says on which x axis the interface draws a metric until somebody chooses another: the values of the metric `step_metric` at
        the same steps, or `step`, `time` or `relative` (seconds since the start).

        name: of a metric, or a pattern such as `valid/*`. The name goes first, then the longest pattern.
        """
        self.log_other(f"{_AXIS_OF}{name}", step_metric)

    # Where in the run

    def set_step(self, step: Any) -> None:
        """The step of points that are logged without one."""
        self._set("step", "set_step", step)

    def set_epoch(self, epoch: Any) -> None:
        """The epoch of points that are logged without one."""
        self._set("epoch", "set_epoch", epoch)

    def _set(self, field: str, call: str, value: Any) -> None:
        try:
            setattr(self._run, field, None if value is None else to_integer(value))
        except Exception:
            self._run.faults.add(
                f"{call}: got {_shorten(value)}, expected a whole number of 64 bits.", data_affected=call
            )

    @contextlib.contextmanager
    def context_manager(self: Kind, context: str) -> Iterator[Kind]:
        """
        Points that this thread (or asyncio task) logs within belong to a context, such as `train` or `validate`. A thread that is
        started within begins outside of it.
        """
        with entered(self._run, context):
            yield self

    def train(self: Kind) -> contextlib.AbstractContextManager[Kind]:
        return self.context_manager("train")

    def validate(self: Kind) -> contextlib.AbstractContextManager[Kind]:
        return self.context_manager("validate")

    def test(self: Kind) -> contextlib.AbstractContextManager[Kind]:
        return self.context_manager("test")


def _leaves(name: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        for inner, it in value.items():
            yield from _leaves(f"{name}/{inner}", it)
    else:
        yield name, value


def _is_mapping(value: Any) -> bool:
    is_record = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return is_record or isinstance(value, (Mapping, argparse.Namespace))


def _to_mapping(value: Any) -> Mapping[str, Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {it.name: getattr(value, it.name) for it in dataclasses.fields(value)}
    if isinstance(value, argparse.Namespace):
        return vars(value)
    if isinstance(value, Mapping):
        return value
    raise SvcError(f"parameters is {_shorten(value)}: expected a dictionary, an argparse.Namespace or a dataclass.")


def to_text(value: Any) -> str:
    """A value as text: of a tensor or array with one element the number, of everything else what `str` makes of it."""
    item = getattr(value, "item", None)
    if callable(item):
        try:
            value = item()
        except Exception:
            pass
    return str(value)


def _shorten(value: Any) -> str:
    try:
        shown = repr(value)
    except Exception:
        # An integer of thousands of digits, or an object of the user's that cannot show itself.
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= 60 else shown[:57] + "..."
