"""
Compares an export with the formula that made its points (`bench/proof/points.ts`), value for value: floats bit for bit. Each line
of docs/export.md reads its format, as it stands there. `npm run bench:export-proof` calls it, once for each reader and format:

    python clients/python/bench/export_values.py SPEC FOLDER pandas parquet '[["metrics", ["metrics.parquet"]]]'
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

PAGE = Path(__file__).resolve().parents[3] / "docs" / "export.md"
FORMATS = {"parquet": "parquet", "arrow": "arrows", "csv": "csv", "jsonl": "jsonl"}
READERS = ("pandas", "polars", "duckdb")
RUNS_AT_ONCE = 20
NAN = np.uint64(0x7FF8000000000000)


def line_of(reader: str, format: str) -> str:
    """The line of the page that reads a format: the second block of code of a reader has one for each."""
    blocks = re.findall(r"^```python\n# (\w+)[^\n]*\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    _recipe, formats = (code for name, code in blocks if name == reader)
    (line,) = (it for it in formats.splitlines() if f'"metrics.{FORMATS[format]}"' in it)
    before = [it for it in formats.splitlines() if not it.startswith("points = ")]
    return "\n".join([*before, line])


def read(reader: str, format: str, file: str) -> pa.Table:
    names: dict[str, Any] = {}
    line = line_of(reader, format).replace(f"metrics.{FORMATS[format]}", file)
    if file.startswith(("output", "runs")):
        # What the lines say of the column value: these tables have none.
        line = re.sub(r"\.cast\(.*?\)|\.select\(.*\)", "", line)
    if file.startswith("output"):
        line = line.replace(", dtype=types", "")
    if file.startswith("runs"):
        line = line.replace("schema_overrides=types", "infer_schema_length=None")
        line = line.replace("sample_size=-1, dtype=types", "all_varchar=True")
    exec(line, names)
    points = names["points"]
    if reader == "pandas":
        return pa.Table.from_pandas(points, preserve_index=False)
    return points.to_arrow() if reader == "polars" else points.to_arrow_table()


def mix(number: np.ndarray) -> np.ndarray:
    """64 bits that look random, of a number: as the SQL of the formula, which wraps around likewise."""
    it = (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    it = (it ^ (it >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    it = (it ^ (it >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return it ^ (it >> np.uint64(31))


class Formula:
    """What the points of a run must be, in the order of the export."""

    def __init__(self, spec: dict[str, Any], what: str) -> None:
        self.spec = spec
        self.points: int = spec["points"][what]
        self.seed = np.uint64(spec["seeds"][what])
        self.special = np.array([int(it) for it in spec["specialBits"]], np.uint64)
        names, contexts, runs = spec["metrics"], spec["contexts"], len(spec["runs"])
        place = np.arange(self.points)
        metric, number = place % len(names), place // len(names)
        last = self.points // len(names) - 1
        step = number.astype(np.int64)
        for at, extreme in ((0, -(2**63)), (last, 2**63 - 1), (last - 1, 2**53 + 1), (last - 2, -(2**53) - 1)):
            step[number == at] = extreme
        has_step = number % 97 != 5
        stored_step = np.where(has_step, step, 0)
        epoch = np.where(number == 1, 2**63 - 1, number // 100)
        has_epoch = number % 3 != 0
        self.has_time = number % 101 != 7
        stored_time = np.where(self.has_time, place, -1)
        sorted_names = sorted(range(len(names)), key=lambda it: names[it].encode())
        rank = np.argsort(np.array(sorted_names))[metric]
        # Each metric has one context.
        self.order = np.lexsort((place, stored_time, stored_step, rank))
        order = self.order
        context = [contexts[it % len(contexts)] or None for it in metric[order].tolist()]
        self.columns = {
            "metric": pa.array([names[it] for it in metric[order].tolist()]),
            "context": pa.array(context, pa.string()),
            "step": pa.array(step[order], pa.int64(), mask=~has_step[order]),
            "epoch": pa.array(epoch[order], pa.int64(), mask=~has_epoch[order]),
        }
        self.place, self.number, self.metric = place, number, metric
        assert runs * self.points < 2**53

    def bits(self, run: int) -> np.ndarray:
        """The values of a run as they are stored, in the order in which they were made."""
        n = np.uint64(run * self.points) + self.place.astype(np.uint64)
        mixed = mix(n + self.seed)
        anything = np.where(np.isnan(mixed.view(np.float64)), NAN, mixed)
        between = ((mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53).view(np.uint64)
        special = self.special[(n % np.uint64(len(self.special))).astype(int)]
        return np.where(self.number % 53 == 0, special, np.where(self.metric % 2 == 0, anything, between))

    def times(self, run: int) -> np.ndarray:
        return np.where(self.has_time, self.spec["timeMs"] + run * self.points + self.place, self.spec["receivedMs"])

    def table(self, first: int, count: int) -> pa.Table:
        """The rows of some runs."""
        tables = []
        for run in range(first, first + count):
            named = self.spec["runs"][run]
            constant = {
                "project": self.spec["project"],
                "experiment_key": named["key"],
                "experiment_name": named["name"],
            }
            columns = {name: pa.repeat(pa.scalar(text), self.points) for name, text in constant.items()}
            times = pa.array(self.times(run)[self.order], pa.timestamp("ms", "UTC"))
            value = pa.array(self.bits(run)[self.order].view(np.float64))
            tables.append(pa.table({**columns, **self.columns, "time": times, "value": value}))
        return pa.concat_tables(tables)


def output_table(spec: dict[str, Any], first: int, count: int) -> pa.Table:
    lines: int = spec["points"]["output"]
    rows = []
    for run in range(first, first + count):
        named = spec["runs"][run]
        for line in range(lines):
            n = run * lines + line
            text = f'line {n}, "quoted" \\ äöü' + ("\n" if n % 2 == 0 else "")
            offset = 2**63 - 1 if line == lines - 1 else line
            context = "train" if n % 5 == 0 else None
            time_ms = spec["timeMs"] + n
            rows.append((spec["project"], named["key"], named["name"], time_ms, offset, context, n % 3 == 0, text))
    names = ("project", "experiment_key", "experiment_name", "time", "offset", "context", "stderr", "output")
    text = pa.string()
    types = (text, text, text, pa.timestamp("ms", "UTC"), pa.int64(), text, pa.bool_(), text)
    return pa.table({name: pa.array(list(them), type) for name, them, type in zip(names, zip(*rows), types)})


def compare_values(found: pa.ChunkedArray, expected: pa.ChunkedArray, reader: str, format: str) -> int:
    """How many floats differ. In text a NaN has no bits, and JSON's readers know no -0."""
    if found.null_count > 0 and (reader, format) != ("pandas", "csv"):
        raise SystemExit(f"{found.null_count} values are missing")
    left, right = (it.cast(pa.float64()).to_numpy().view(np.uint64).copy() for it in (found, expected))
    if format in ("csv", "jsonl"):
        for bits in (left, right):
            bits[np.isnan(bits.view(np.float64))] = NAN
            if format == "jsonl":
                bits[bits == np.uint64(2**63)] = 0
    return int((left != right).sum())


def compare(found: pa.Table, expected: pa.Table, reader: str, format: str) -> None:
    if found.column_names != expected.column_names:
        raise SystemExit(f"the columns are {found.column_names}, not {expected.column_names}")
    for name in expected.column_names:
        right, left = expected[name], found[name]
        if pa.types.is_floating(right.type):
            if differing := compare_values(left, right, reader, format):
                raise SystemExit(f"{differing} floats of {name} differ")
            continue
        if pa.types.is_floating(left.type):
            raise SystemExit(f"{name} was read as {left.type}: integers are rounded")
        left = left.cast(right.type)
        if not left.combine_chunks().equals(right.combine_chunks()):
            at = next(it for it in range(len(right)) if left[it].as_py() != right[it].as_py())
            raise SystemExit(f"{name} of row {at} is {left[at]!r}, not {right[at]!r}")


def expected_blocks(spec: dict[str, Any], what: str) -> Iterator[pa.Table]:
    formula = None if what == "output" else Formula(spec, what)
    for first in range(0, len(spec["runs"]), RUNS_AT_ONCE):
        count = min(RUNS_AT_ONCE, len(spec["runs"]) - first)
        yield formula.table(first, count) if formula else output_table(spec, first, count)


def compare_all(spec: dict[str, Any], what: str, reader: str, format: str, files: list[str]) -> int:
    """Compares files, one after the other the rows of all runs. The number of rows."""
    expected = expected_blocks(spec, what)
    rest: pa.Table | None = None
    rows = 0
    for file in files:
        table = read(reader, format, file)
        at = 0
        while at < len(table):
            if rest is None or len(rest) == 0:
                rest = next(expected, None)
                if rest is None:
                    raise SystemExit(f"there are {len(table) - at} more rows in {file}")
            count = min(len(rest), len(table) - at)
            compare(table.slice(at, count), rest.slice(0, count), reader, format)
            rest = rest.slice(count)
            at += count
        rows += len(table)
    missing = (0 if rest is None else len(rest)) + sum(len(it) for it in expected)
    if missing:
        raise SystemExit(f"{missing} rows are missing")
    return rows


def compare_runs(spec: dict[str, Any], reader: str, format: str, file: str) -> int:
    """The wide table of the runs: parameters, and the last, least and greatest value of each metric."""
    table = read(reader, format, file)
    formula = Formula(spec, "metrics")
    names, contexts = spec["metrics"], spec["contexts"]
    if table["experiment_key"].to_pylist() != [it["key"] for it in spec["runs"]]:
        raise SystemExit("the runs differ")
    if (reader, format) == ("polars", "csv"):
        # polars leaves the quotes of a name doubled.
        table = table.rename_columns([it.replace('""', '"') for it in table.column_names])
    for run, row in enumerate(table.to_pylist()):
        wanted: dict[str, Any] = {"experiment_name": spec["runs"][run]["name"], "params.rate": f"rate {run}"}
        values, times = formula.bits(run).view(np.float64), formula.times(run)
        for at, name in enumerate(names):
            of_metric = formula.metric == at
            its, newest = values[of_metric], int(np.argmax(times[of_metric]))
            context = contexts[at % len(contexts)]
            title = f"metrics.{context}_{name}" if context else f"metrics.{name}"
            parts = {"last": its[newest], "min": np.nanmin(its), "max": np.nanmax(its)}
            wanted |= {f"{title}.{part}": float(it) for part, it in parts.items()}
        for name, value in wanted.items():
            found = row[name]
            if isinstance(value, float):
                found = np.nan if found is None else float(str(found).strip('"'))
                is_same = found == value or (np.isnan(found) and np.isnan(value))
            else:
                is_same = str(found) == value
            if not is_same:
                raise SystemExit(f"{name} of run {run} is {found!r}, not {value!r}")
    return len(table)


def main() -> None:
    spec_file, folder, reader, format, jobs = sys.argv[1:]
    spec = json.loads(Path(spec_file).read_text())
    os.chdir(folder)
    for what, files in json.loads(jobs):
        began = time.monotonic()
        found = (
            compare_runs(spec, reader, format, *files)
            if what == "runs"
            else compare_all(spec, what, reader, format, files)
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        told = {
            "what": what,
            "parts": len(files),
            "rows": found,
            "seconds": round(time.monotonic() - began, 1),
            "peakMiB": round(peak),
        }
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
