"""The command `svc-ml import`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from svc_ml.fault import SvcError
from svc_ml.importers.items import Source
from svc_ml.importers.report import Report
from svc_ml.importers.sender import RunSender, Target
from svc_ml.importers.work import follow, import_once, wait_seconds
from svc_ml.settings import read_settings
from svc_ml.transport.service import Service, Unavailable

_DEFAULT_PROJECT = "general"
_INTERRUPTED = 130
_USAGE = 2
"""As argparse exits."""


def add_command(commands: Any) -> None:
    """commands: what `add_subparsers` of argparse returns."""
    parser = commands.add_parser("import", help="bring runs of other trackers here")
    parser.set_defaults(run=_tell_sources)
    kinds = parser.add_subparsers(metavar="SOURCE")
    shared = _shared_options()
    for name, (text, add_options) in _KINDS.items():
        kind = kinds.add_parser(name, help=text, description=f"Imports {text}.", parents=[shared])
        kind.set_defaults(run=_import, open=add_options(kind))


def _tell_sources(_: argparse.Namespace) -> int:
    width = max(map(len, _KINDS))
    lines = [f"  svc-ml import {name:{width}}  {text}" for name, (text, _) in _KINDS.items()]
    told = "\n".join(["svc-ml: say where the runs come from:", *lines, "Each has --help, and --dry-run to try it."])
    print(told, file=sys.stderr)
    return _USAGE


def _shared_options() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--project", help="where all runs go (else the project that the source names, else the setting)"
    )
    shared.add_argument("--workspace", help="(else the setting, else that of the key)")
    shared.add_argument("--url", help="the service (else SVC_URL)")
    shared.add_argument("--api-key", help="(else SVC_API_KEY)")
    shared.add_argument("--dry-run", action="store_true", help="read everything and send nothing")
    shared.add_argument("--follow", action="store_true", help="go on with a source that grows, until Ctrl-C")
    shared.add_argument("--interval", type=_at_least_zero, default=5, metavar="SECONDS", help="between two looks (5)")
    shared.add_argument("--workers", type=_positive, default=os.cpu_count() or 1, help="processes (one for each core)")
    shared.add_argument(
        "--patience", type=_at_least_zero, default=60, metavar="SECONDS", help="how long to wait for an answer (60)"
    )
    shared.add_argument("--json", action="store_true", help="the report as one line of JSON")
    return shared


# The sources


def _tensorboard(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], Source]:
    parser.add_argument(
        "source", type=Path, nargs="+", help="a folder with event files somewhere in it, or such a file"
    )
    parser.add_argument(
        "--each-folder", action="store_true", help="each folder is a run, also `train`, `val` and inner ones"
    )

    def open_source(given: argparse.Namespace) -> Source:
        from svc_ml.importers.tensorboard.folders import TensorBoardSource

        return TensorBoardSource(given.source, given.each_folder)

    return open_source


def _wandb(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], Source]:
    parser.add_argument(
        "source",
        nargs="+",
        help="a folder `wandb`, or one with such folders, or a .wandb file; or ENTITY/PROJECT[/RUN] of a server of W&B",
    )

    def open_source(given: argparse.Namespace) -> Source:
        from svc_ml.importers.wandb.run import WandbSource
        from svc_ml.importers.wandb.server import WandbServerSource

        [first, *more] = given.source
        if not more and first.count("/") in (1, 2) and all(first.split("/")) and not Path(first).exists():
            return WandbServerSource(first)
        return WandbSource([Path(it) for it in given.source])

    return open_source


def _swanlab(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], Source]:
    parser.add_argument(
        "source", type=Path, nargs="+", help="a folder `swanlog`, or one with such folders, or a .swanlab file"
    )

    def open_source(given: argparse.Namespace) -> Source:
        from svc_ml.importers.swanlab.run import SwanlabSource

        return SwanlabSource(given.source)

    return open_source


def _mlflow(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], Source]:
    parser.add_argument(
        "source", help="mlflow.db (or sqlite:///mlflow.db), a folder mlruns, or the address of a server"
    )

    def open_source(given: argparse.Namespace) -> Source:
        from svc_ml.importers.mlflow.open import open_store
        from svc_ml.importers.mlflow.run import MlflowSource

        return MlflowSource(open_store(given.source))

    return open_source


def _table(kind: str) -> Callable[[argparse.ArgumentParser], Callable[[argparse.Namespace], Source]]:
    def add_options(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], Source]:
        parser.add_argument("source", type=Path, nargs="+", help="files with a row for each step, or for each point")
        for name, text in _COLUMNS.items():
            parser.add_argument(f"--{name}", dest=f"column_{name}", metavar="COLUMN", help=text)
        parser.add_argument(
            "--param", metavar="COLUMN", action="append", default=[], help="a parameter: its last value"
        )
        parser.add_argument("--ignore", metavar="COLUMN", action="append", default=[], help="left out")
        if kind == "csv":
            parser.add_argument("--delimiter", help="between cells (a comma; in files .tsv a tab)")
        return lambda given: _open_table(kind, given)

    return add_options


_COLUMNS = {
    "run": "each of its values is a run (else each file is one)",
    "step": "(else step, _step, global_step or iteration)",
    "epoch": "whole numbers",
    "time": "numbers since 1970, or dates (else timestamp, time, _timestamp, wall_time, datetime or date)",
    "context": "such as train and valid",
    "metric": "names of metrics, of a table with a row for each point (else each other column is a metric)",
    "value": "values, beside --metric (value)",
}


def _open_table(kind: str, given: argparse.Namespace) -> Source:
    from svc_ml.importers.table.rows import CsvRows, JsonRows, ParquetRows
    from svc_ml.importers.table.run import Mapping, Rows, TableSource

    def open_rows(path: Path) -> Rows:
        if kind == "csv":
            return CsvRows(path, given.delimiter or ("\t" if path.suffix == ".tsv" else ","), given.follow)
        return JsonRows(path, given.follow) if kind == "jsonl" else ParquetRows(path)

    named = {it: getattr(given, f"column_{it}") for it in ("run", "step", "epoch", "time", "context", "metric")}
    mapping = Mapping(
        **named, value=given.column_value or "value", parameters=tuple(given.param), ignored=tuple(given.ignore)
    )
    return TableSource(kind, [open_rows(it) for it in given.source], mapping)


def _neptune(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], Source]:
    parser.add_argument("source", type=Path, help="the folder that neptune-exporter has written as its --data-path")
    parser.add_argument("--files", type=Path, metavar="FOLDER", help="that which it has written as its --files-path")
    parser.add_argument(
        "--step-multiplier", type=_positive, default=1, metavar="N", help="makes steps with decimals whole (1)"
    )

    def open_source(given: argparse.Namespace) -> Source:
        from svc_ml.importers.neptune.run import NeptuneSource

        return NeptuneSource(given.source, given.files, given.step_multiplier)

    return open_source


def _trackio(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], Source]:
    parser.add_argument("source", type=Path, help="a database <project>.db, or the folder that has them")

    def open_source(given: argparse.Namespace) -> Source:
        from svc_ml.importers.trackio.run import TrackioSource

        return TrackioSource(given.source)

    return open_source


def _aim(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], Source]:
    parser.add_argument("source", type=Path, help="the folder that has .aim in it")

    def open_source(given: argparse.Namespace) -> Source:
        from svc_ml.importers.aim.run import AimSource

        return AimSource(given.source)

    return open_source


def _comet(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], Source]:
    parser.add_argument("source", type=Path, nargs="*", help="archives .zip")

    def open_source(given: argparse.Namespace) -> Source:
        archives = " ".join(map(str, given.source)) or "ARCHIVE.zip"
        raise SvcError(
            f"Comet's own client reads its archives and can write to this service: COMET_URL_OVERRIDE={read_settings({}).url}/clientlib/ "
            f"COMET_API_KEY=... comet upload {archives}. What is stored at Comet: export it as CSV, then `svc-ml import csv`."
        )

    return open_source


_KINDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], Callable[[argparse.Namespace], Source]]]] = {
    "tensorboard": ("event files of TensorBoard", _tensorboard),
    "mlflow": ("runs of MLflow out of its database, its folder or its server", _mlflow),
    "neptune": ("what neptune-exporter has written", _neptune),
    "trackio": ("runs of trackio", _trackio),
    "swanlab": ("runs of SwanLab out of their local files", _swanlab),
    "aim": ("runs of Aim, with its own package", _aim),
    "comet": ("archives that comet_ml has written offline, by its own `comet upload`", _comet),
    "csv": ("tables of CSV", _table("csv")),
    "jsonl": ("tables of JSON lines", _table("jsonl")),
    "parquet": ("tables of Parquet, with pyarrow", _table("parquet")),
    "wandb": ("runs of W&B out of their local files, or of its server", _wandb),
}


# The import


def _import(given: argparse.Namespace) -> int:
    source: Source = given.open(given)
    target = _find_target(given)
    began = time.monotonic()
    try:
        with tqdm(desc=source.kind, unit="B", unit_scale=True, file=sys.stderr, disable=None) as bar:
            senders, report = import_once(source, target, given.workers, *_to_progress(bar))
        _tell(report, given, time.monotonic() - began)
        if given.follow:
            return _follow(source, target, senders, report, given)
    except (OSError, ValueError) as error:
        # While runs are listed; what goes wrong with one is in the report.
        raise SvcError(str(error)) from None
    except KeyboardInterrupt:
        print("svc-ml: broken off. The same command goes on.", file=sys.stderr)
        return _INTERRUPTED
    return 1 if report.failed else 0


def _follow(source: Source, target: Target, senders: list[RunSender], report: Report, given: argparse.Namespace) -> int:
    def on_report(found: Report) -> None:
        if found.taken or found.failed:
            report.add(found)
            _tell(found, given, 0)

    try:
        follow(source, target, senders, on_report, wait_seconds(given.interval))
    except KeyboardInterrupt:
        pass
    return 1 if report.failed else 0


def _find_target(given: argparse.Namespace) -> Target:
    named = {"url": given.url, "api_key": given.api_key, "workspace": given.workspace}
    settings = read_settings(named)
    default_project = settings.project_name or _DEFAULT_PROJECT
    if given.dry_run and settings.api_key is None:
        return Target(None, settings.workspace or "", given.project, default_project, given.patience)
    if settings.api_key is None:
        raise SvcError("No API key: give --api-key, set SVC_API_KEY, or write it into ~/.svc.config.")
    service = Service(settings.url, settings.api_key)
    try:
        workspace = settings.workspace or service.get("/account-details", {})["defaultWorkspaceName"]
    except Unavailable as error:
        raise SvcError(f"{error}. Start the service there, or give --url.") from None
    # Another than that which was asked: one that is open cannot travel to other processes.
    unopened = None if given.dry_run else Service(settings.url, settings.api_key)
    return Target(unopened, workspace, given.project, default_project, given.patience)


def _to_progress(bar: Any) -> tuple[Callable[[int, int], None], Callable[[int], None]]:
    """What is told of runs that are done, and of points that are on their way."""
    points = 0

    def on_run(size: int, whole: int) -> None:
        if bar.total is None:
            bar.reset(total=whole)
        bar.update(size)

    def on_points(count: int) -> None:
        nonlocal points
        points += count
        bar.set_postfix_str(f"{points:,} points")

    return on_run, on_points


def _tell(report: Report, given: argparse.Namespace, seconds: float) -> None:
    if given.json:
        print(json.dumps({**report.to_json(), "dryRun": given.dry_run, "seconds": round(seconds, 3)}), flush=True)
        return
    print(report.to_text(given.dry_run, seconds or None), flush=True)
    if len(report.links) <= 10 and not given.dry_run:
        print("\n".join(report.links), flush=True)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("expected 1 or more")
    return number


def _at_least_zero(text: str) -> float:
    number = float(text)
    if not number >= 0:
        raise argparse.ArgumentTypeError("expected 0 or more")
    return number
