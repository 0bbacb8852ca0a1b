"""
A CSV file as a data set, streamed to the service in parts.

A part whose answer was lost is sent again, and ends as if it were sent once: a line that brings no prediction id gets
one made of the file's name, the number of the line and what stands in it. So it is for a file that is sent a second
time, also when lines were added to its end meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from typing import Any

from .client.backoff import Backoff
from .client.fault import logger
from .client.service import Rejected, Unavailable
from .errors import ErrorLog
from .event import InvalidEvent
from .parts import Part, read_parts
from .settings import Settings
from .transport import Transport

PATHS = {
    "EVENTS": "/mpm/v2/data/events/csv",
    "LATE_LABELS": "/mpm/v2/data/labels/csv",
    "TRAINING_EVENTS": "/mpm/v2/dataset/events/csv",
}

_TELL_EVERY_SECONDS = 5.0


@dataclass
class Counts:
    """Lines of a file, by what became of them."""

    lines: int = 0
    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0


class Upload:
    """Sends one file."""

    def __init__(self, transport: Transport, errors: ErrorLog, patience_seconds: float) -> None:
        self._transport = transport
        self._errors = errors
        self._patience_seconds = patience_seconds
        self._backoff = Backoff()
        self.counts = Counts()
        self._told_at = time.monotonic()

    def send(self, file_path: str, dataset_type: str, query: dict[str, str]) -> None:
        """
        Sends a file, and returns when all of it is stored.

        Raises OSError when it cannot be read, Rejected, and Unavailable when the service was away for longer than there
        is patience. What was stored until then stays, and is the same when the file is sent again.
        """
        name = os.path.basename(file_path)
        with open(file_path, "rb") as file:
            for part in read_parts(file):
                self._send_part(name, PATHS[dataset_type], query, part)
        it = self.counts
        logger.info(
            "%s: all %d lines are stored: %d new, %d there already, %d rejected",
            name, it.lines, it.accepted, it.duplicates, it.rejected,
        )  # fmt: skip

    def _send_part(self, name: str, path: str, query: dict[str, str], part: Part) -> None:
        key = hashlib.sha256(f"{name}\0{part.first_line}".encode("utf-8", "surrogateescape")).hexdigest()
        deadline: float | None = None
        while True:
            try:
                last = self._read_answer(name, part, self._transport.post_file(path, query, name, part.content, key))
                break
            except Unavailable as error:
                now = time.monotonic()
                if deadline is None:
                    deadline = now + self._patience_seconds
                    logger.warning("%s: at line %d: %s. Trying again", name, part.first_line, error)
                if now >= deadline:
                    raise Unavailable(
                        f"{name}: given up at line {part.first_line} of the file, after {self._patience_seconds:g} s: "
                        f"{error}. Upload the file again: what is stored of it stays as it is"
                    ) from error
                time.sleep(min(self._backoff.next(error.retry_after_seconds), max(0.0, deadline - now)))
        self._backoff.reset()
        self.counts.lines += int(last.get("lines") or 0)
        self.counts.accepted += int(last.get("accepted") or 0)
        self.counts.duplicates += int(last.get("duplicates") or 0)
        self._reject(name, part, last)
        self._tell_progress(name, part.end_line - 1)

    def _read_answer(self, name: str, part: Part, answer: Any) -> dict[str, Any]:
        for told in answer:
            if not told.get("done"):
                if "lines" in told:
                    self._tell_progress(name, part.to_file_line(part.header_lines + int(told["lines"])))
                continue
            code = int(told.get("code") or 500)
            if code == 200:
                return dict(told)
            if code >= 500 or code == 429:
                raise Unavailable(str(told.get("msg")))
            raise Rejected(str(told.get("msg")), code)
        raise Unavailable("the answer ended before all was told")

    def _reject(self, name: str, part: Part, last: dict[str, Any]) -> None:
        rejected = int(last.get("rejected") or 0)
        self.counts.rejected += rejected
        lines: set[int] = set()
        for fault in last.get("faults") or []:
            line = int(fault["line"])
            lines.add(line)
            field = f"{fault['field']}: " if fault.get("field") else ""
            where = f"line {part.to_file_line(line)}"
            self._errors.add(f"{name}: the service rejected a line: {field}{fault.get('msg')}", [where])
        if rejected > len(lines):
            self._errors.add(f"{name}: the service rejected further lines", count=rejected - len(lines))

    def _tell_progress(self, name: str, line: int) -> None:
        if time.monotonic() - self._told_at < _TELL_EVERY_SECONDS:
            return
        self._told_at = time.monotonic()
        logger.info("%s: at line %d; %d rejected", name, line, self.counts.rejected)


def to_query(
    settings: Settings,
    dataset_type: str,
    dataset_name: str | None,
    na_values: str | None,
    keep_default_na_values: bool | str | None,
) -> dict[str, str]:
    """
    What a file is to be read by, but for the workspace.

    Raises InvalidEvent.
    """
    if dataset_type not in PATHS:
        raise InvalidEvent(f"dataset_type: must be one of {', '.join(PATHS)}, not {dataset_type!r}")
    if dataset_type == "TRAINING_EVENTS" and not dataset_name:
        raise InvalidEvent("dataset_name: is missing: TRAINING_EVENTS need one")
    if not dataset_name and settings.model_name is None:
        raise InvalidEvent("dataset_name: is missing, and so is the model_name of SvcMPM: pass one of them")
    if na_values is not None and not isinstance(na_values, str):
        raise InvalidEvent("na_values: expected a string with commas between the values")
    keep = "true" if keep_default_na_values is None else str(keep_default_na_values).lower()
    if keep not in ("true", "false"):
        raise InvalidEvent(f"keep_default_na_values: expected true or false, not {keep_default_na_values!r}")
    given = {
        "modelName": settings.model_name,
        "modelVersion": settings.model_version,
        "datasetName": dataset_name,
        "NAValues": na_values,
        "keepDefaultNAValues": keep,
    }
    return {name: value for name, value in given.items() if value is not None}
