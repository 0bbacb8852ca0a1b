"""
TensorBoard: what any `SummaryWriter` of PyTorch or tensorboardX writes is logged too. The script stays as it is:

    python -m svc_ml.integration.tensorboard train.py --its --own arguments

or `sync()` is its first line. The writers still write their files.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import runpy
import struct
import sys
from typing import Any, Optional

from svc_ml.integration.recorder import Recorder, guarded, missing, shortest

_WRITERS = ("tensorboard.summary.writer.event_file_writer", "tensorboardX.event_file_writer")
_HPARAMS = ("tensorboard.plugins.hparams.plugin_data_pb2", "tensorboardX.proto.plugin_hparams_pb2")
_PARTS = frozenset(["train", "training", "val", "valid", "validation", "eval", "test"])

_originals: dict[Any, Any] = {}
_active: Optional[_Sync] = None


def sync(experiment: Any = None, **options: Any) -> None:
    """
    From now on scalars, texts, images and hyperparameters go to the service too, by their tags and steps. Of several writers
    those of folders `train`, `val`, ... log in a context of that name, those below the first one's folder in one named by the
    path, others as the first. The run ends with the script, or by `stop()`.

    options: of the Experiment that it makes, with the first event.
    """
    global _active
    stop()
    found = [it for it in map(_import, _WRITERS) if it is not None]
    if not found:
        raise missing("tensorboard", "tensorboard or tensorboardX")
    _active = _Sync(experiment, options)
    for module in found:
        kind = module.EventFileWriter
        original = _originals[kind] = kind.add_event
        kind.add_event = _watch(original)


def stop() -> None:
    """Logs nothing more, and ends the run if it was made here."""
    global _active
    for kind, original in _originals.items():
        kind.add_event = original
    _originals.clear()
    if _active is not None:
        _active.recorder.end()
        _active = None


class _Sync:
    def __init__(self, experiment: Any, options: dict[str, Any]) -> None:
        self.recorder = Recorder(experiment, options)
        self._first: Optional[str] = None

    @guarded
    def log(self, folder: str, event: Any) -> None:
        values = event.summary.value if event.HasField("summary") else ()
        if not values:
            return
        experiment = self.recorder.open()
        context = self._context(folder)
        with experiment.context_manager(context) if context else contextlib.nullcontext():
            for value in values:
                _log_value(experiment, value, event.step)

    def _context(self, folder: str) -> str:
        folder = os.path.abspath(folder)
        if self._first is None:
            self._first = folder
        if os.path.basename(folder) in _PARTS:
            return os.path.basename(folder)
        path = os.path.relpath(folder, self._first)
        return "" if path == "." or path.startswith("..") else path.replace(os.sep, "/")


def _log_value(experiment: Any, value: Any, step: int) -> None:
    kind, plugin = value.WhichOneof("value"), value.metadata.plugin_data
    if kind == "simple_value":
        # The files have 32 bits; a number that was typed as 0.1 is not told as 0.10000000149011612.
        experiment.log_metric(value.tag, shortest(value.simple_value), step=step)
    elif kind == "image":
        experiment.log_image(value.image.encoded_image_string, value.tag, step=step)
    elif plugin.plugin_name == "hparams":
        _log_hparams(experiment, plugin.content)
    elif kind == "tensor" and plugin.plugin_name == "text":
        text = "\n".join(it.decode(errors="replace") for it in value.tensor.string_val)
        experiment.log_text(text, step=step, metadata={"tag": value.tag})
    elif kind == "tensor" and plugin.plugin_name == "scalars":
        tensor = value.tensor
        number = tensor.float_val[0] if tensor.float_val else struct.unpack("<f", tensor.tensor_content[:4])[0]
        experiment.log_metric(value.tag, shortest(number), step=step)


def _log_hparams(experiment: Any, content: bytes) -> None:
    module = next(it for it in map(_import, _HPARAMS) if it is not None)
    start = module.HParamsPluginData.FromString(content).session_start_info
    experiment.log_parameters(
        {name: getattr(it, it.WhichOneof("kind") or "string_value") for name, it in start.hparams.items()}
    )


def _watch(add_event: Any) -> Any:
    @functools.wraps(add_event)
    def watched(self: Any, event: Any, *given: Any, **named: Any) -> Any:
        result = add_event(self, event, *given, **named)
        if _active is not None:
            _active.log(self.get_logdir(), event)
        return result

    return watched


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: python -m svc_ml.integration.tensorboard SCRIPT [ARGUMENT ...]")
    # The same module under its own name: this one is called __main__.
    importlib.import_module("svc_ml.integration.tensorboard").sync()
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
