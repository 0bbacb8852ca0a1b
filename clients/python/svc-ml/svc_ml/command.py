"""The command `svc-ml`."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from tqdm import tqdm

from svc_ml.fault import Faults, SvcError, show_log
from svc_ml.settings import Settings, read_settings
from svc_ml.spool.folder import Locked, find_spool_folders, open_spool_folder
from svc_ml.transport.service import Service
from svc_ml.transport.sync import send_folder

_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0 when everything was sent, 1 when something is left or was refused."""
    parser = argparse.ArgumentParser(prog="svc-ml", description="Looks after what training runs have left on disk.")
    commands = parser.add_subparsers(required=True)
    sync = commands.add_parser("sync", help="send offline experiments, and what a crash or an outage has left")
    sync.add_argument("directory", type=Path, help="a spool, or a folder with spools somewhere in it")
    sync.add_argument("--url", help="the service (else SVC_URL, else where the run would have sent it)")
    sync.add_argument("--api-key", help="(else SVC_API_KEY)")
    sync.add_argument(
        "--patience", type=float, default=60, metavar="SECONDS", help="how long to wait for an answer (60)"
    )
    return _sync(parser.parse_args(arguments))


def _sync(given: argparse.Namespace) -> int:
    show_log()
    try:
        settings = read_settings({"url": given.url, "api_key": given.api_key})
        if settings.api_key is None:
            raise SvcError("No API key: give --api-key, set SVC_API_KEY, or write it into ~/.svc.config.")
        if not given.directory.is_dir():
            raise SvcError(f"{given.directory} is no folder: give the one that the run has named.")
    except SvcError as error:
        print(f"svc-ml: {error}", file=sys.stderr)
        return 1
    paths = list(find_spool_folders(given.directory))
    if not paths:
        print(f"svc-ml: nothing is left to be sent in {given.directory}.", file=sys.stderr)
    are_sent = [_sync_one(path, settings, given.patience) for path in paths]
    return 0 if all(are_sent) else 1


def _sync_one(path: Path, settings: Settings, patience_seconds: float) -> bool:
    faults = Faults()
    try:
        folder = open_spool_folder(path)
    except Locked:
        print(f"svc-ml: {path} is in use by a process that still runs: left alone.", file=sys.stderr)
        return False
    except (OSError, ValueError, TypeError) as error:
        print(f"svc-ml: {path} cannot be read: {error}", file=sys.stderr)
        return False
    url = settings.url if "url" in settings.named else folder.about.url
    service = Service(url, settings.api_key or "")
    bar = tqdm(desc=folder.about.experiment_key[:8], unit="B", unit_scale=True, file=sys.stderr)

    def show(left: int) -> None:
        if bar.total is None:
            bar.reset(total=left)
        bar.update(max(0, (bar.total or 0) - left - bar.n))

    try:
        with bar:
            progress = send_folder(
                folder, service, faults, stop=threading.Event(), patience_seconds=patience_seconds, on_left=show
            )
    except KeyboardInterrupt:
        print(f"svc-ml: broken off. To go on: svc-ml sync {path}", file=sys.stderr)
        raise SystemExit(_INTERRUPTED) from None
    except SvcError as error:
        folder.close()
        elsewhere = "" if "url" in settings.named else " To send it to another service: --url."
        print(f"svc-ml: {path} was not sent: {error} The rest is kept: run this again.{elsewhere}", file=sys.stderr)
        return False
    print(f"{folder.about.experiment_key}: {progress.sent_points:,} points, {progress.sent_records:,} records.")
    return not progress.rejected


if __name__ == "__main__":
    sys.exit(main())
