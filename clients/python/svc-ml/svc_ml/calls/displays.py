"""The calls that log what people look at or listen to: images, tables, curves, histograms, sound, video and the like."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from svc_ml.calls.guard import never_raises
from svc_ml.calls.upload import describe, upload
from svc_ml.calls.watch import What, watch_model
from svc_ml.fault import SvcError
from svc_ml.form.confusion import count_classes
from svc_ml.form.histogram import count_values, take_counts
from svc_ml.form.picture import to_animation, to_encoded, to_sprite
from svc_ml.form.projector import to_labels, to_vectors
from svc_ml.form.scene import to_scene
from svc_ml.form.sound import to_wav
from svc_ml.form.table import to_csv, to_rows
from svc_ml.number import to_float, to_integer
from svc_ml.run import Run

_GET_ASSET = "/api/rest/v2/experiment/asset/get-asset"


class DisplayCalls:
    """numpy, Pillow, matplotlib and pandas are imported only for what needs them: who passes such an object has them."""

    _run: Run

    @never_raises
    def log_image(
        self,
        image_data: Any,
        name: str | None = None,
        overwrite: bool = False,
        image_format: str = "png",
        step: Any = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        image_channels: Literal["first", "last"] | None = None,
    ) -> dict[str, str] | None:
        """
        Logs an image: a path, encoded bytes, a Pillow image, a figure of matplotlib, or an array or tensor of shape
        (height, width), (height, width, C) or (C, height, width) with C of 1, 3 or 4. Values are whole numbers of 0 to 255, floats
        of 0 to 1, or booleans.

        image_channels: where C stands; without, the shape tells, and of two that fit it is the last.
        """
        if isinstance(image_data, (str, Path)):
            return self._log_display(image_data, name or Path(image_data).name, "image", step, metadata, overwrite)
        data = image_data
        if not isinstance(data, (bytes, bytearray)) and not hasattr(data, "read"):
            data = to_encoded(data, image_format, image_channels)
        return self._log_display(data, name or f"image.{image_format}", "image", step, metadata, overwrite)

    @never_raises
    def log_figure(
        self, figure_name: str | None = None, figure: Any = None, overwrite: bool = False, step: Any = None
    ) -> dict[str, str] | None:
        """Logs a figure of matplotlib (the current one when none is given) as PNG, or one of plotly as HTML."""
        if figure is None:
            import matplotlib.pyplot

            figure = matplotlib.pyplot.gcf()
        name = figure_name or "figure"
        if hasattr(figure, "savefig"):
            data = to_encoded(figure, "png")
            return self._log_display(data, _with_suffix(name, "png"), "image", step, None, overwrite)
        if hasattr(figure, "to_html"):
            data = str(figure.to_html()).encode()
            return self._log_display(data, _with_suffix(name, "html"), "asset", step, None, overwrite)
        raise SvcError(f"figure is a {type(figure).__name__}, expected one of matplotlib or plotly.")

    @never_raises
    def log_table(
        self, filename: str, tabular_data: Any = None, headers: bool | Sequence[str] | None = None, step: Any = None
    ) -> dict[str, str] | None:
        """
        Logs a table: the file of that name, a data frame of pandas or polars, or a list of rows, as CSV, or as JSON when the name
        ends so. Rows are lists, or dictionaries, which may lack some of the columns.

        headers: the names of the columns of a list of rows; of dictionaries, which columns and in which order. False leaves the
        names of a data frame or of dictionaries out.
        """
        if tabular_data is None:
            return self._log_display(filename, Path(filename).name, "dataframe", step, None, False)
        is_json = filename.endswith(".json")
        if hasattr(tabular_data, "to_csv"):
            text = tabular_data.to_json(orient="split") if is_json else tabular_data.to_csv(header=headers is not False)
        elif hasattr(tabular_data, "write_csv"):
            rows = [list(row) for row in tabular_data.rows()]
            frame = {"columns": list(tabular_data.columns), "index": list(range(len(rows))), "data": rows}
            text = (
                json.dumps(frame, default=str)
                if is_json
                else tabular_data.write_csv(include_header=headers is not False)
            )
        else:
            rows = to_rows(tabular_data, headers)
            text = json.dumps(rows, default=str) if is_json else to_csv(rows)
        return self._log_display(text.encode(), filename, "dataframe", step, None, False)

    @never_raises
    def log_curve(
        self, name: str, x: Iterable[Any], y: Iterable[Any], overwrite: bool = False, step: Any = None
    ) -> dict[str, str] | None:
        """Logs a curve, such as a ROC: two lists of numbers of the same length."""
        curve = {"name": name, "x": [to_float(it) for it in x], "y": [to_float(it) for it in y]}
        if len(curve["x"]) != len(curve["y"]):
            raise SvcError(f"x has {len(curve['x'])} numbers and y has {len(curve['y'])}: give as many of each.")
        data = json.dumps(curve).encode()
        return self._log_display(data, _with_suffix(name, "json"), "curve", step, None, overwrite)

    @never_raises
    def log_confusion_matrix(
        self,
        y_true: Iterable[Any] | None = None,
        y_predicted: Iterable[Any] | None = None,
        matrix: Iterable[Iterable[Any]] | None = None,
        labels: Sequence[str] | None = None,
        title: str = "Confusion Matrix",
        row_label: str = "Actual Category",
        column_label: str = "Predicted Category",
        file_name: str = "confusion-matrix.json",
        step: Any = None,
    ) -> dict[str, str] | None:
        """
        Logs how often each class was taken for each: counted from the classes of `y_true` and `y_predicted` (whole numbers,
        names, or vectors with a score for each class), or given as `matrix`, of which rows are actual classes. Named classes
        stand in the order of `labels`, else in alphabetical order.
        """
        if matrix is None:
            if y_true is None or y_predicted is None:
                raise SvcError("give y_true and y_predicted, or matrix.")
            counts, labels = count_classes(y_true, y_predicted, labels)
        else:
            counts = [[to_integer(it) for it in row] for row in matrix]
        names = list(labels) if labels is not None else [str(it) for it in range(len(counts))]
        if any(len(row) != len(counts) for row in counts) or len(names) != len(counts):
            raise SvcError(f"a matrix of {len(counts)} rows needs as many columns and labels.")
        content = {
            "version": 1,
            "title": title,
            "labels": names,
            "matrix": counts,
            "rowLabel": row_label,
            "columnLabel": column_label,
        }
        return self._log_display(json.dumps(content).encode(), file_name, "confusion-matrix", step, None, False)

    @never_raises
    def log_histogram(
        self,
        values: Any = None,
        name: str | None = None,
        step: Any = None,
        epoch: Any = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        counts: Iterable[Any] | None = None,
        edges: Iterable[Any] | None = None,
        bins: int = 64,
    ) -> dict[str, str] | None:
        """
        Logs a histogram, such as that of weights; those of one name make a chart over steps.

        values: numbers in a list, array or tensor of any shape, counted in `bins` bins of equal width from the least to the
            greatest.
        counts, edges: instead of `values` what was counted already; one edge more than counts, rising.
        """
        if (values is None) == (counts is None) or (counts is None) != (edges is None):
            raise SvcError("give values, or counts and edges.")
        found = count_values(values, bins) if counts is None or edges is None else take_counts(counts, edges)
        label = name or "histogram"
        data = json.dumps({"version": 1, "name": label, **found}).encode()
        return self._log_display(data, _as_json(label), "histogram3d", step, metadata, False, epoch)

    log_histogram_3d = log_histogram

    @never_raises
    def watch(self, model: Any, log: What = "gradients", log_freq: int = 1_000) -> Callable[[], None] | None:
        """
        Logs histograms of a `torch.nn.Module` while it is trained, until the call that is returned, or the end of the experiment:
        `gradients/<parameter>` at every `log_freq`-th backward pass, `parameters/<parameter>` at every `log_freq`-th forward pass in
        training mode. The step is that of `set_step`, else the number of passes before.
        """

        def log_one(values: Any, name: str, passes: int) -> None:
            self.log_histogram(values, name, step=passes if self._run.step is None else self._run.step)

        end = watch_model(model, log, log_freq, log_one)
        self._run.closers.append(end)
        return end

    @never_raises
    def log_audio(
        self,
        audio_data: Any,
        sample_rate: int | None = None,
        normalize_data: Literal["PCM_16_BIT", "OFF"] = "PCM_16_BIT",
        file_name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        overwrite: bool = False,
        copy_to_tmp: bool = True,
        step: Any = None,
    ) -> dict[str, str] | None:
        """
        Logs sound: a path, encoded bytes, or samples in an array, tensor or list of shape (samples,) or (samples, channels), which
        become a WAV file. Samples are floats of -1 to 1, or uint8, int16 or int32.

        sample_rate: samples a second, needed for an array.
        normalize_data: `PCM_16_BIT` makes samples 16 bits wide, and scales floats down whose peak is beyond 1. `OFF` keeps integers
            as they are.
        """
        if _is_file(audio_data):
            name = file_name or (Path(audio_data).name if isinstance(audio_data, (str, Path)) else "audio.wav")
            query = describe(self._run, name, "audio", step, metadata, overwrite)
            return {"assetId": upload(self._run, audio_data, query, copy_to_tmp)}
        if sample_rate is None:
            raise SvcError("sample_rate is missing: samples in an array need it.")
        data = to_wav(audio_data, sample_rate, normalize_data)
        return self._log_display(data, _with_suffix(file_name or "audio", "wav"), "audio", step, metadata, overwrite)

    @never_raises
    def log_video(
        self,
        file: Any,
        name: str | None = None,
        overwrite: bool = False,
        format: str | None = None,
        step: Any = None,
        epoch: Any = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        fps: float = 10,
        image_channels: Literal["first", "last"] | None = None,
    ) -> dict[str, str] | None:
        """
        Logs a video: a path, encoded bytes, or frames, which become a GIF of 256 colours. Frames are an array or tensor of shape
        (frames, height, width), (frames, height, width, C) or (frames, C, height, width), or a list of what `log_image` takes as an
        array or Pillow image.

        format: the ending of the name where that of the file says nothing, such as `mp4`.
        fps: frames a second, 100 at most, of a GIF that is made here.
        image_channels: where C stands in a frame; without, the shape tells.
        """
        if _is_file(file):
            whole = name or (Path(file).name if isinstance(file, (str, Path)) else "video")
            whole = _with_suffix(whole, format) if format else whole
            return self._log_display(file, whole, "video", step, metadata, overwrite, epoch)
        data = to_animation(file, fps, image_channels)
        return self._log_display(data, _with_suffix(name or "video", "gif"), "video", step, metadata, overwrite, epoch)

    @never_raises
    def log_embedding(
        self,
        vectors: Any,
        labels: Sequence[Any],
        image_data: Any = None,
        image_size: Sequence[int] | None = None,
        *,
        title: str = "embedding",
        step: Any = None,
    ) -> dict[str, str] | None:
        """
        Logs vectors with their labels as files of TensorBoard's projector: `<title>-vectors.tsv`, `<title>-labels.tsv`, with images
        `<title>-images.png`, and `<title>.json`, which names them by their addresses at the service. Returns the `assetId` of that.

        vectors: a matrix of shape (vectors, dimensions).
        labels: one for each vector, or a table: a row of names of columns, then one for each vector.
        image_data: an image for each vector, as `log_image` takes them; `image_size` is (width, height), by default that of the
            first.
        """
        data, shape = to_vectors(vectors)
        table = to_labels(labels, shape[0])
        sprite = None if image_data is None else to_sprite(image_data, image_size)
        if sprite is not None and sprite[2] != shape[0]:
            raise SvcError(f"image_data has {sprite[2]} images, expected one for each of {shape[0]} vectors.")

        def log_part(part: bytes, ending: str) -> str:
            query = describe(self._run, f"{title}-{ending}", "asset", step, None, False)
            return f"{_GET_ASSET}?{urlencode({'experimentKey': self._run.key, 'assetId': upload(self._run, part, query, True)})}"

        config: dict[str, Any] = {
            "tensorName": title,
            "tensorShape": list(shape),
            "tensorPath": log_part(data, "vectors.tsv"),
            "metadataPath": log_part(table, "labels.tsv"),
        }
        if sprite is not None:
            image, size, _ = sprite
            config["sprite"] = {"imagePath": log_part(image, "images.png"), "singleImageDim": list(size)}
        template = json.dumps({"embeddings": [config]}).encode()
        return self._log_display(template, _as_json(title), "embeddings", step, None, False)

    @never_raises
    def log_points_3d(
        self,
        scene_name: str,
        points: Any = None,
        boxes: Sequence[Mapping[str, Any]] | None = None,
        step: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> dict[str, str] | None:
        """
        Logs points in space, and boxes around them; those of one scene may be logged at many steps.

        points: of shape (points, 3), or (points, 6) with red, green and blue of 0 to 1 for each; all numbers finite.
        boxes: dictionaries such as `{"segments": [[[x, y, z], [x, y, z]], ...], "color": [255, 0, 0], "name": "car"}`.
        """
        content = {"version": 1, "name": scene_name, **to_scene(points, boxes)}
        data = json.dumps(content).encode()
        return self._log_display(data, _as_json(scene_name), "3d-points", step, metadata, False)

    def _log_display(
        self,
        source: Any,
        name: str,
        type: str,
        step: Any,
        metadata: Mapping[str, Any] | None,
        overwrite: bool,
        epoch: Any = None,
    ) -> dict[str, str]:
        query = describe(self._run, name, type, step, metadata, overwrite, epoch)
        return {"assetId": upload(self._run, source, query, True)}


def _with_suffix(name: str, suffix: str) -> str:
    return name if Path(name).suffix else f"{name}.{suffix}"


def _as_json(name: str) -> str:
    return name if name.endswith(".json") else f"{name}.json"


def _is_file(data: Any) -> bool:
    """True of a path, of bytes, and of something with `read`."""
    return isinstance(data, (str, Path, bytes, bytearray)) or hasattr(data, "read")
