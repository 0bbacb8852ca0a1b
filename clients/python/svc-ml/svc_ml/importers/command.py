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


def add_command(commands: Any) -> None:
    """commands: what `add_subparsers` of argparse returns."""
    parser = commands.add_parser("import", help="bring runs of other trackers here")
    kinds = parser.add_subparsers(required=True, metavar="SOURCE")
    shared = _shared_options()
    for name, (text, add_options) in _KINDS.items():
        kind = kinds.add_parser(name, help=text, description=f"Imports {text}.", parents=[shared])
        kind.set_defaults(run=_import, open=add_options(kind))


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
        "source", type=Path, nargs="+", help="a folder `wandb`, or one with such folders, or a .wandb file"
    )

    def open_source(given: argparse.Namespace) -> Source:
        from svc_ml.importers.wandb.run import WandbSource

        return WandbSource(given.source)

    return open_source


def _mlflow(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], Source]:
    parser.add_argument("source", help="mlflow.db (or sqlite:///mlflow.db), or a folder mlruns")

    def open_source(given: argparse.Namespace) -> Source:
        from svc_ml.importers.mlflow.open import open_store
        from svc_ml.importers.mlflow.run import MlflowSource

        return MlflowSource(open_store(given.source))

    return open_source


_KINDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], Callable[[argparse.Namespace], Source]]]] = {
    "tensorboard": ("event files of TensorBoard", _tensorboard),
    "mlflow": ("runs of MLflow out of its database or folder", _mlflow),
    "wandb": ("runs of W&B out of their local files, online and offline ones", _wandb),
}


# The import


def _import(given: argparse.Namespace) -> int:
    source: Source = given.open(given)
    target = _find_target(given)
    began = time.monotonic()
    try:
        with tqdm(desc=source.kind, unit="B", unit_scale=True, file=sys.stderr, disable=None) as bar:
            senders, report = import_once(source, target, given.workers, _to_progress(bar))
        _tell(report, given, time.monotonic() - began)
        if given.follow:
            return _follow(source, target, senders, report, given)
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


def _to_progress(bar: Any) -> Callable[[int, int], None]:
    def on_run(size: int, whole: int) -> None:
        if bar.total is None:
            bar.reset(total=whole)
        bar.update(size)

    return on_run


def _tell(report: Report, given: argparse.Namespace, seconds: float) -> None:
    if given.json:
        print(json.dumps({**report.to_json(), "dryRun": given.dry_run, "seconds": round(seconds, 3)}), flush=True)
        return
    print(report.to_text(given.dry_run), flush=True)
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
