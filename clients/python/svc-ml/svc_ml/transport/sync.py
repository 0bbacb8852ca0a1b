"""Sends what was left on disk: by an offline experiment, an outage, or a process that was killed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from svc_ml.client.spool.folder import Locked
from svc_ml.client.spool.log import SpoolReader
from svc_ml.fault import Faults
from svc_ml.spool.folder import FILES, STREAM, SpoolFolder, find_spool_folders, open_spool_folder
from svc_ml.transport.delivery import Delivery, Interrupted, Progress, Registration
from svc_ml.transport.sender import send_next
from svc_ml.transport.service import Rejected, Service


def send_folder(
    folder: SpoolFolder,
    service: Service,
    faults: Faults,
    *,
    stop: threading.Event,
    patience_seconds: float,
    on_left: Callable[[int], None] = lambda _: None,
    elsewhere: Mapping[str, str] | None = None,
) -> Progress:
    """
    Sends a spool whole and deletes it. Whatever breaks it off, the next attempt goes on from the last acknowledged batch, with
    the same ids. A record that is torn, as the last one is when its process was killed, is skipped and told to `faults`.

    on_left: told how many bytes are left, after each batch.
    elsewhere: `workspaceName` and `projectName` of a new experiment, in place of those that it was begun with.

    Raises Rejected when nothing would pass, Unavailable, Interrupted.
    """
    about = folder.about
    progress = Progress()
    create = None if about.create is None else {**about.create, **(elsewhere or {})}
    registration = Registration(about.experiment_key, create, may_exist=True)
    lanes = [lane for lane in (STREAM, FILES) if (folder.path / lane).is_dir()]
    readers = {lane: SpoolReader(folder.path / lane) for lane in lanes}

    def left() -> int:
        return folder.copied_bytes() + sum(it.pending_bytes() for it in readers.values())

    try:
        for lane, reader in readers.items():
            delivery = Delivery(
                service,
                registration,
                folder=folder.path,
                context=about.context,
                faults=faults,
                progress=progress,
                stop=stop,
                hurry=threading.Event(),
                patience_seconds=patience_seconds,
            )
            on_left(left())
            while send_next(reader, delivery, f"{about.spool_id}-{lane}", None):
                on_left(left())
            if reader.damaged_bytes:
                faults.add(
                    f"{folder.path}: {reader.damaged_bytes} bytes are damaged or were torn off, and were skipped."
                )
    finally:
        for reader in readers.values():
            reader.close()
    folder.remove()
    on_left(0)
    return progress


def send_leftovers(
    root: Path,
    service: Service,
    faults: Faults,
    stop: threading.Event,
    *,
    experiment_key: str | None = None,
    own: Path | None = None,
) -> bool:
    """
    Sends, one after the other, the spools in a folder that were meant for this service and that nobody works on: of all
    experiments, or of one; not the caller's `own`. False when it left some alone, because a process still works on them or
    it was told to stop.
    """
    is_whole = True
    for path in find_spool_folders(root):
        if stop.is_set():
            return False
        if path == own or not path.name.startswith(experiment_key or ""):
            continue
        try:
            folder = open_spool_folder(path)
        except Locked:
            is_whole = False
            continue
        except (ValueError, TypeError, OSError):
            continue
        if folder.about.url != service.url:
            folder.close()
            continue
        try:
            send_folder(folder, service, faults, stop=stop, patience_seconds=float("inf"))
        except Interrupted:
            folder.close()
            return False
        except Rejected as error:
            folder.close()
            faults.add(f"What an earlier run left in {path} was refused: {error}", data_affected=str(path))
        except Exception as error:
            folder.close()
            faults.add(f"What an earlier run left in {path} cannot be sent: {error!r}", error=error)
    return is_whole
