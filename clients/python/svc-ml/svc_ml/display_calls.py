"""The calls that log what people look at: images, figures, tables, curves, confusion matrices."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from svc_ml.fault import SvcError
from svc_ml.file_calls import FileCalls
from svc_ml.number import to_float, to_integer
from svc_ml.run import never_raises


class DisplayCalls(FileCalls):
    """Pillow, matplotlib and pandas are imported by none of these: who passes such an object has them."""

    @never_raises
    def log_image(
        self,
        image_data: Any,
        name: str | None = None,
        overwrite: bool = False,
        image_format: str = "png",
        step: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> dict[str, str]:
        """
        Logs an image: a path, encoded bytes, a Pillow image, or an array or tensor of shape (height, width),
        (height, width, 1), (height, width, 3) or (height, width, 4), with values of 0 to 255, or as floats of 0 to 1.
        """
        if isinstance(image_data, (str, Path)):
            return self._log_display(image_data, name or Path(image_data).name, "image", step, metadata, overwrite)
        data = image_data
        if not isinstance(data, (bytes, bytearray)) and not hasattr(data, "read"):
            picture = data if hasattr(data, "save") else _to_picture(data)
            buffer = io.BytesIO()
            picture.save(buffer, format=image_format)
            data = buffer.getvalue()
        return self._log_display(data, name or f"image.{image_format}", "image", step, metadata, overwrite)

    @never_raises
    def log_figure(
        self, figure_name: str | None = None, figure: Any = None, overwrite: bool = False, step: Any = None
    ) -> dict[str, str]:
        """Logs a figure of matplotlib (the current one when none is given) as PNG, or one of plotly as HTML."""
        if figure is None:
            import matplotlib.pyplot

            figure = matplotlib.pyplot.gcf()
        name = figure_name or "figure"
        if hasattr(figure, "savefig"):
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png")
            return self._log_display(buffer.getvalue(), _with_suffix(name, "png"), "image", step, None, overwrite)
        if hasattr(figure, "to_html"):
            data = str(figure.to_html()).encode()
            return self._log_display(data, _with_suffix(name, "html"), "asset", step, None, overwrite)
        raise SvcError(f"figure is a {type(figure).__name__}, expected one of matplotlib or plotly.")

    @never_raises
    def log_table(
        self, filename: str, tabular_data: Any = None, headers: bool | Sequence[str] | None = None, step: Any = None
    ) -> dict[str, str]:
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
            rows = _to_rows(tabular_data, headers)
            text = json.dumps(rows, default=str) if is_json else _to_csv(rows)
        return self._log_display(text.encode(), filename, "dataframe", step, None, False)

    @never_raises
    def log_curve(
        self, name: str, x: Iterable[Any], y: Iterable[Any], overwrite: bool = False, step: Any = None
    ) -> dict[str, str]:
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
    ) -> dict[str, str]:
        """
        Logs how often each class was taken for each: counted from the classes of `y_true` and `y_predicted` (whole numbers,
        names, or vectors with a score for each class), or given as `matrix`, of which rows are actual classes. Named classes
        stand in the order of `labels`, else in alphabetical order.
        """
        if matrix is None:
            if y_true is None or y_predicted is None:
                raise SvcError("give y_true and y_predicted, or matrix.")
            actual, predicted = list(y_true), list(y_predicted)
            if any(isinstance(it, str) for it in actual + predicted):
                labels = _names_of_classes(actual + predicted, labels)
                numbers = {name: number for number, name in enumerate(labels)}
                actual, predicted = [numbers[str(it)] for it in actual], [numbers[str(it)] for it in predicted]
            counts = _count([_to_class(it) for it in actual], [_to_class(it) for it in predicted], len(labels or ()))
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

    def _log_display(
        self, source: Any, name: str, type: str, step: Any, metadata: Mapping[str, Any] | None, overwrite: bool
    ) -> dict[str, str]:
        query = self._describe(name, type, step, metadata, overwrite)
        return {"assetId": self._upload(source, query, True)}


def _to_picture(data: Any) -> Any:
    try:
        import numpy
        from PIL import Image
    except ImportError:
        raise SvcError("images out of arrays need numpy and Pillow: pip install numpy pillow.") from None
    if hasattr(data, "detach"):
        data = data.detach().cpu()
    pixels = numpy.asarray(data)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.ndim != 2 and not (pixels.ndim == 3 and pixels.shape[2] in (3, 4)):
        raise SvcError(
            f"the image has the shape {pixels.shape}, expected (height, width) or (height, width, 1, 3 or 4)."
        )
    if pixels.dtype.kind == "f":
        pixels = pixels * 255
    return Image.fromarray(pixels.clip(0, 255).astype("uint8"))


def _to_class(value: Any) -> int:
    if hasattr(value, "__len__") and len(value) > 1:
        scores = [to_float(it) for it in value]
        return scores.index(max(scores))
    return to_integer(value)


def _count(actual: list[int], predicted: list[int], classes: int) -> list[list[int]]:
    if len(actual) != len(predicted):
        raise SvcError(f"y_true has {len(actual)} entries and y_predicted has {len(predicted)}: give as many of each.")
    if min(actual + predicted, default=0) < 0:
        raise SvcError("classes are numbered from 0.")
    size = max(classes, max(actual + predicted, default=-1) + 1)
    counts = [[0] * size for _ in range(size)]
    for row, column in zip(actual, predicted):
        counts[row][column] += 1
    return counts


def _names_of_classes(found: list[Any], labels: Sequence[str] | None) -> list[str]:
    names = {str(it) for it in found}
    if labels is None:
        return sorted(names)
    unknown = sorted(names - set(labels))
    if unknown:
        raise SvcError(f"labels has no {unknown[0]!r}, which is a class of y_true or y_predicted: give all classes.")
    return list(labels)


def _to_rows(table: Iterable[Any], headers: bool | Sequence[str] | None) -> list[list[Any]]:
    rows = list(table)
    names = None if headers is None or isinstance(headers, bool) else list(headers)
    if not any(isinstance(it, Mapping) for it in rows):
        return ([names] if names is not None else []) + [list(it) for it in rows]
    odd = next((it for it in rows if not isinstance(it, Mapping)), None)
    if odd is not None:
        raise SvcError(f"a row is a {type(odd).__name__} and others are dictionaries: give rows of one kind.")
    # Every column that some row has, in the order in which they first come.
    columns = names if names is not None else list(dict.fromkeys(name for row in rows for name in row))
    return ([] if headers is False else [columns]) + [[row.get(name) for name in columns] for row in rows]


def _to_csv(rows: list[list[Any]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def _with_suffix(name: str, suffix: str) -> str:
    return name if Path(name).suffix else f"{name}.{suffix}"
