"""What people look at and listen to, as scripts written for W&B make it: each logs itself by the call that the experiment has for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from svc_ml.base_experiment import BaseExperiment
from svc_ml.form.array import is_array, to_array
from svc_ml.wandb.absent import tell_absent


class Shown:
    """Something that is logged as a file."""

    def log_to(self, experiment: BaseExperiment, name: str, step: int) -> None:
        raise NotImplementedError


class Image(Shown):
    """
    data_or_path: a path, a Pillow image, a figure of matplotlib, or an array or tensor. Floats of -1 to 1 are stretched to 0 to 1,
        other numbers are cut to 0 to 255.
    """

    def __init__(
        self,
        data_or_path: Any,
        mode: str | None = None,
        caption: str | None = None,
        grouping: int | None = None,
        classes: Any = None,
        boxes: Any = None,
        masks: Any = None,
        file_type: str | None = None,
        normalize: bool = True,
    ) -> None:
        for field, given in (("boxes", boxes), ("masks", masks)):
            if given is not None:
                tell_absent(f"Image({field}=...)", "The image itself is logged.")
        data = data_or_path.data if isinstance(data_or_path, Image) else data_or_path
        is_picture = is_array(data) and not hasattr(data, "save")
        self.data: Any = _to_range(data) if is_picture and normalize else data
        self.caption = caption
        self._format = file_type or "png"

    def log_to(self, experiment: BaseExperiment, name: str, step: int) -> None:
        metadata = None if self.caption is None else {"caption": self.caption}
        experiment.log_image(self.data, name, image_format=self._format, step=step, metadata=metadata)


class Audio(Shown):
    def __init__(self, data_or_path: Any, sample_rate: int | None = None, caption: str | None = None) -> None:
        self.data = data_or_path
        self.caption = caption
        self._sample_rate = sample_rate

    def log_to(self, experiment: BaseExperiment, name: str, step: int) -> None:
        metadata = None if self.caption is None else {"caption": self.caption}
        named = _with_ending(name, self.data, "wav")
        experiment.log_audio(self.data, self._sample_rate, file_name=named, metadata=metadata, step=step)


class Video(Shown):
    """data_or_path: a path, or an array of shape (frames, C, height, width); several in one more dimension stand side by side."""

    def __init__(
        self, data_or_path: Any, caption: str | None = None, fps: int | None = None, format: str | None = None
    ) -> None:
        data = data_or_path
        if is_array(data):
            data = to_array(data)
            if data.ndim == 5:
                import numpy

                data = numpy.concatenate(list(data), axis=-1)
        self.data = data
        self.caption = caption
        self._fps = fps or 4

    def log_to(self, experiment: BaseExperiment, name: str, step: int) -> None:
        metadata = None if self.caption is None else {"caption": self.caption}
        named = _with_ending(name, self.data, "gif")
        if is_array(self.data):
            experiment.log_video(self.data, named, step=step, metadata=metadata, fps=self._fps, image_channels="first")
        else:
            experiment.log_video(self.data, named, step=step, metadata=metadata)


class Html(Shown):
    """data: HTML, the path of a file of it, or an open file."""

    def __init__(self, data: Any, inject: bool = True, data_is_not_path: bool = False) -> None:
        if hasattr(data, "read"):
            data = data.read()
        elif not data_is_not_path and _is_path(data):
            data = Path(data).read_text(encoding="utf-8")
        self.html = data.decode() if isinstance(data, bytes) else str(data)

    def log_to(self, experiment: BaseExperiment, name: str, step: int) -> None:
        experiment.log_asset(self.html.encode(), f"{name}.html", step=step)


class Histogram(Shown):
    """sequence: numbers of any shape; np_histogram: what `numpy.histogram` returns instead."""

    def __init__(self, sequence: Any = None, np_histogram: Sequence[Any] | None = None, num_bins: int = 64) -> None:
        self._sequence = sequence
        self._counted = np_histogram
        self._bins = num_bins

    def log_to(self, experiment: BaseExperiment, name: str, step: int) -> None:
        if self._counted is None:
            experiment.log_histogram(self._sequence, name, step=step, bins=self._bins)
        else:
            counts, edges = self._counted
            experiment.log_histogram(name=name, step=step, counts=counts, edges=edges)


class Object3D(Shown):
    """data_or_path: the path of a scene, or points of shape (points, 3), or (points, 6) with red, green and blue of 0 to 255."""

    def __init__(self, data_or_path: Any, caption: str | None = None) -> None:
        if isinstance(data_or_path, dict):
            for field in sorted({"boxes", "vectors"} & data_or_path.keys()):
                tell_absent(f"Object3D({field}=...)", "The points are logged.")
            data_or_path = data_or_path["points"]
        self.data = data_or_path
        self.caption = caption

    def log_to(self, experiment: BaseExperiment, name: str, step: int) -> None:
        metadata = None if self.caption is None else {"caption": self.caption}
        if isinstance(self.data, (str, Path)):
            experiment.log_asset(self.data, f"{name}{Path(self.data).suffix}", step=step, metadata=metadata)
            return
        rows = [[float(it) for it in row] for row in self.data]
        if any(len(it) == 4 for it in rows):
            tell_absent("Object3D with a category for each point", "The points are logged.")
        coloured = [[*it[:3], *(part / 255 for part in it[3:6])] if len(it) == 6 else it[:3] for it in rows]
        experiment.log_points_3d(name, coloured, step=step, metadata=metadata)


def _to_range(data: Any) -> Any:
    """Numbers as W&B draws them."""
    pixels = to_array(data)
    if pixels.dtype.kind != "f":
        return pixels.clip(0, 255).astype("uint8") if pixels.dtype.kind in "iu" else pixels
    if pixels.size == 0 or (pixels.min() >= 0 and pixels.max() <= 1):
        return pixels
    if pixels.min() >= -1 and pixels.max() <= 1:
        return (pixels + 1) / 2
    return pixels.clip(0, 255).astype("uint8")


def _is_path(data: Any) -> bool:
    if isinstance(data, Path):
        return True
    try:
        return isinstance(data, str) and len(data) < 4_096 and Path(data).is_file()
    except (OSError, ValueError):
        return False


def _with_ending(name: str, data: Any, ending: str) -> str:
    return f"{name}{Path(data).suffix}" if isinstance(data, (str, Path)) else f"{name}.{ending}"
