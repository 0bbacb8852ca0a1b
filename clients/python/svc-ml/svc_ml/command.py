"""The command `svc-ml`."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from svc_ml.client.spool.folder import Locked
from svc_ml.client.spool.log import size_of
from svc_ml.fault import Faults, SvcError, show_log
from svc_ml.importers.command import add_command
from svc_ml.settings import Settings, read_settings
from svc_ml.spool.folder import ABOUT_NAME, SpoolFolder, find_spool_folders, open_spool_folder
from svc_ml.transport.service import Service
from svc_ml.transport.sync import send_folder

_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0 when everything was done, 1 when something is left or was refused."""
    parser = argparse.ArgumentParser(
        prog="svc-ml", description="Looks after what training runs have left on disk, and brings runs here."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    sync = commands.add_parser("sync", help="send offline experiments, and what a crash or an outage has left")
    sync.set_defaults(run=_sync)
    sync.add_argument("directory", type=Path, help="a spool, or a folder with spools somewhere in it")
    sync.add_argument("--url", help="the service (else SVC_URL, else where the run would have sent it)")
    sync.add_argument("--api-key", help="(else SVC_API_KEY)")
    sync.add_argument(
        "--workspace", help="where a new experiment goes, in place of the workspace that it was begun with"
    )
    sync.add_argument("--project", help="likewise, its project")
    sync.add_argument(
        "--patience", type=float, default=60, metavar="SECONDS", help="how long to wait for an answer (60)"
    )

    show = commands.add_parser("list", help="show what waits to be sent")
    show.set_defaults(run=_list)
    show.add_argument(
        "directory",
        type=Path,
        nargs="?",
        help="(else the folders of the settings spool_directory and offline_directory)",
    )
    show.add_argument("--json", action="store_true", help="one JSON object a line")

    drop = commands.add_parser("drop", help="delete what is not to be sent")
    drop.set_defaults(run=_drop)
    drop.add_argument("directory", type=Path, nargs="+", help="a spool, as `svc-ml list` names it")
    drop.add_argument("--yes", action="store_true", help="do not ask")

    add_command(commands)

    given = parser.parse_args(arguments)
    show_log()
    try:
        return int(given.run(given))
    except SvcError as error:
        print(f"svc-ml: {error}", file=sys.stderr)
        return 1


# sync


def _sync(given: argparse.Namespace) -> int:
    settings = read_settings({"url": given.url, "api_key": given.api_key})
    if settings.api_key is None:
        raise SvcError("No API key: give --api-key, set SVC_API_KEY, or write it into ~/.svc.config.")
    _check_folder(given.directory)
    paths = list(find_spool_folders(given.directory))
    if not paths:
        print(f"svc-ml: nothing is left to be sent in {given.directory}.", file=sys.stderr)
    names = {"workspaceName": given.workspace, "projectName": given.project}
    elsewhere = {name: value for name, value in names.items() if value}
    are_sent = [_sync_one(path, settings, given.patience, elsewhere) for path in paths]
    return 0 if all(are_sent) else 1


def _sync_one(path: Path, settings: Settings, patience_seconds: float, elsewhere: dict[str, str]) -> bool:
    faults = Faults()
    folder = _open(path)
    if folder is None:
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
                folder,
                service,
                faults,
                stop=threading.Event(),
                patience_seconds=patience_seconds,
                on_left=show,
                elsewhere=elsewhere,
            )
    except KeyboardInterrupt:
        print(f"svc-ml: broken off. To go on: svc-ml sync {path}", file=sys.stderr)
        raise SystemExit(_INTERRUPTED) from None
    except SvcError as error:
        folder.close()
        advice = "" if "url" in settings.named else " To send it to another service: --url."
        if folder.about.create is not None and not elsewhere:
            advice += " To another workspace or project: --workspace, --project."
        print(f"svc-ml: {path} was not sent: {error} The rest is kept: run this again.{advice}", file=sys.stderr)
        return False
    print(f"{folder.about.experiment_key}: {progress.sent_points:,} points, {progress.sent_records:,} records.")
    return not progress.rejected


# list


@dataclass(frozen=True)
class _Waiting:
    """What a spool holds that was not sent. `workspace` and `project` are None for an experiment that is there already."""

    path: str
    experiment_key: str
    workspace: str | None
    project: str | None
    url: str
    bytes: int
    age_seconds: int
    in_use: bool


def _list(given: argparse.Namespace) -> int:
    if given.directory is not None:
        _check_folder(given.directory)
        roots = [given.directory]
    else:
        settings = read_settings({})
        roots = [Path(it).expanduser() for it in (settings.spool_directory, settings.offline_directory)]
    found = [it for root in roots if root.is_dir() for path in find_spool_folders(root) if (it := _look(path))]
    if given.json:
        for it in found:
            print(json.dumps(it.__dict__))
        return 0
    if not found:
        print(f"Nothing waits to be sent in {' or '.join(map(str, roots))}.", file=sys.stderr)
    for it in found:
        state = "in use by a process that still runs" if it.in_use else f"{_describe_age(it.age_seconds)} old"
        where = "an existing experiment" if it.project is None else f"{it.workspace or '(default)'}/{it.project}"
        print(f"{it.path}\n    {it.experiment_key} of {where} at {it.url}, {it.bytes / 1e6:,.1f} MB, {state}")
    return 0


def _look(path: Path) -> _Waiting | None:
    try:
        about = json.loads((path / ABOUT_NAME).read_text(encoding="utf-8"))
        create = about.get("create")
        return _Waiting(
            path=str(path),
            experiment_key=about["experiment_key"],
            workspace=None if create is None else create.get("workspaceName"),
            project=None if create is None else create.get("projectName"),
            url=about["url"],
            bytes=sum(size_of(it) for it in path.rglob("*") if it.is_file()),
            age_seconds=int(time.time() - (path / ABOUT_NAME).stat().st_mtime),
            in_use=_is_in_use(path),
        )
    except FileNotFoundError:
        # Its process has sent all of it meanwhile.
        return None
    except (OSError, ValueError, KeyError) as error:
        print(f"svc-ml: {path} cannot be read: {error}", file=sys.stderr)
        return None


def _is_in_use(path: Path) -> bool:
    try:
        open_spool_folder(path).close()
    except Locked:
        return True
    except (OSError, ValueError, TypeError):
        # Of a later version, say: nobody we know is at work on it.
        return False
    return False


def _describe_age(seconds: int) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} seconds"


# drop


def _drop(given: argparse.Namespace) -> int:
    is_whole = True
    for path in given.directory:
        if not (path / ABOUT_NAME).is_file():
            raise SvcError(f"{path} is no spool: give one that `svc-ml list` names.")
        folder = _open(path)
        if folder is None:
            is_whole = False
        elif given.yes or _is_agreed(f"Delete {path}, which was not sent? [y/N] "):
            folder.remove()
            print(f"{path} is deleted.")
        else:
            folder.close()
            is_whole = False
    return 0 if is_whole else 1


def _is_agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise SvcError("drop asks before it deletes, and there is no terminal: give --yes.")
    return input(question).strip().lower() in ("y", "yes")


def _open(path: Path) -> SpoolFolder | None:
    try:
        return open_spool_folder(path)
    except Locked:
        print(f"svc-ml: {path} is in use by a process that still runs: left alone.", file=sys.stderr)
    except (OSError, ValueError, TypeError) as error:
        print(f"svc-ml: {path} cannot be read: {error}", file=sys.stderr)
    return None


def _check_folder(path: Path) -> None:
    if not path.is_dir():
        raise SvcError(f"{path} is no folder: give the one that the run has named.")


if __name__ == "__main__":
    sys.exit(main())
