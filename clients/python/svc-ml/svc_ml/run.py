"""One experiment as this process logs to it: how it is opened and how it ends."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Optional

from svc_ml import process_end
from svc_ml.fault import Faults, SvcError, logger, show_log
from svc_ml.settings import Settings, read_settings
from svc_ml.spool import record
from svc_ml.spool.folder import FINISH_NAME, find_spool_folders
from svc_ml.transport.channel import Channel
from svc_ml.transport.delivery import Registration
from svc_ml.transport.service import EXPERIMENT_EXISTS, EXPERIMENT_UNKNOWN, Rejected, Service, Unavailable
from svc_ml.transport.sync import send_leftovers

_TERMINATION_SECONDS = 10.0
_DEFAULT_PROJECT = "general"
_RESUMES = ("never", "allow", "must")


class Run:
    """
    One experiment as this process logs to it: how it opens, where records go, how it ends. What people call stands on it, in `calls/`.

    A disabled one has no channel, and takes nothing.

    create: fields of an experiment that is to be made; None for one that is there.
    resume: see Experiment.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        *,
        create: dict[str, Any] | None,
        is_online: bool,
        resume: str = "never",
        worker: str = "",
        disabled: bool = False,
        raise_on_error_during_init: bool = False,
        display_summary: bool = True,
    ) -> None:
        show_log()
        self.faults = Faults()
        self.channel: Optional[Channel] = None
        self.context = ""
        """The context of points outside of any `context_manager`."""
        self.worker = worker
        # Also of one that cannot be opened: nothing that looks at them may fail.
        self.settings = Settings()
        self.service: Service | None = None
        self.root = Path()
        self.opened_seconds = int(time.time())
        """When this process opened it, in seconds since the Unix epoch."""
        self._resume = resume
        self.step: int | None = None
        self.epoch: int | None = None
        self._pid = os.getpid()
        self.name: str | None = None
        self.link: str | None = None
        self.crash: str | None = None
        self.is_crash_told_by_others = False
        """Another process says whether the run has failed, and may say so later than this one."""
        self._has_ended = False
        # Reentrant, since a signal may interrupt `end`, and its handler call it again.
        self._ending = threading.RLock()
        self._display_summary = display_summary
        self.closers: list[Callable[[], None]] = []
        create = None if resume == "must" else create
        self.is_owner = create is not None
        """This process made the experiment: what is known of its surroundings is logged by nobody else."""
        self._tells_end = self.is_owner or resume != "never"
        self.is_online = is_online
        self.key = str(given.get("experiment_key") or "")
        self.skip_line: Callable[[str], bool] | None = None
        """Lines of output that are logged by somebody else."""
        self.stop_requested = False
        if disabled:
            return
        try:
            self._open(read_settings(given), create, is_online, raise_on_error_during_init)
        except Exception as error:
            if raise_on_error_during_init:
                raise
            self.faults.add(f"Nothing is logged: {error}", error=None if isinstance(error, SvcError) else error)

    def _open(self, settings: Settings, create: dict[str, Any] | None, is_online: bool, raises: bool) -> None:
        self.settings = settings
        if self._resume not in _RESUMES:
            raise SvcError(f"resume is {self._resume!r}: expected 'never', 'allow' or 'must'.")
        self.key = settings.experiment_key or (secrets.token_hex(16) if create is not None else "")
        if not self.key:
            why = " for resume='must'" if self._resume == "must" else ""
            raise SvcError(f"No experiment key{why}: give experiment_key, or set SVC_EXPERIMENT_KEY.")
        if not (32 <= len(self.key) <= 50 and self.key.isascii() and self.key.isalnum()):
            raise SvcError(
                f"experiment_key {self.key!r}: must have 32 to 50 letters and digits; leave it out to get one."
            )
        if create is not None:
            create = {
                "workspaceName": settings.workspace,
                "projectName": settings.project_name or _DEFAULT_PROJECT,
                **create,
            }
        # A key that was drawn here is nobody else's.
        registration = Registration(self.key, create, self._resume == "allow" or settings.experiment_key is None)
        self.service = service = Service(settings.url, settings.api_key) if is_online and settings.api_key else None
        root = Path(settings.spool_directory if is_online else settings.offline_directory).expanduser().absolute()
        self.root = root
        if is_online and service is None:
            message = "No API key: give api_key, set SVC_API_KEY, or write it into ~/.svc.config."
            if raises:
                raise SvcError(message)
            self.faults.add(f"{message} What is logged is kept in {root}; with a key, svc-ml sync {root} sends it.")
        if service is not None:
            self._register(service, registration, raises)
        self.channel = Channel(
            settings,
            root,
            self.key,
            registration=registration,
            service=service,
            context=self.worker,
            faults=self.faults,
            at_start=process_end.watch_forked_process,
        )
        self.name = self.name or registration.answer.get("name") or (create or {}).get("experimentName")
        self.link = self.link or registration.answer.get("link")
        process_end.watch(self)
        if service is not None:
            self._send_leftovers(service)

    def _send_leftovers(self, service: Service) -> None:
        stop = threading.Event()
        given = (self.root, service, self.faults, stop)
        threading.Thread(target=send_leftovers, args=given, name="svc-leftovers", daemon=True).start()
        self.closers.append(stop.set)

    def _register(self, service: Service, registration: Registration, raises: bool) -> None:
        try:
            if registration.create is not None:
                registration.ensure(service, self.settings.init_seconds)
            if not registration.answer:
                self.is_owner = False
                query = {"experimentKey": self.key}
                found = service.get("/experiment/metadata", query, self.settings.init_seconds)
                self.name, self.link = found.get("experimentName"), found.get("link")
        except Unavailable as error:
            if raises:
                raise SvcError(f"{error}. Start the service there, or set SVC_URL to its address.") from error
            self.faults.add(f"{error}: what is logged is kept in {self.root} and sent later.", once="unavailable")
        except Rejected as error:
            advice = _advice(error, self.key)
            if raises:
                raise SvcError(f"{error} {advice}") from error
            self.faults.add(f"{error} {advice} What is logged is kept in {self.root}.", once="barred")

    def call(self, path: str, body: dict[str, Any], method: str = "POST", is_last: bool = False) -> None:
        if self.channel is not None:
            self.channel.put(record.CALL, {"method": method, "path": path, "body": body}, is_last)

    def log_point(self, name: str, value: float) -> None:
        """A point of the machine: it belongs to no step."""
        channel = self.channel
        if channel is not None and not channel.is_closed:
            channel.points.append((name, self.worker, float(value), None, None, now_ms()))
            if channel.is_idle:
                channel.wake()

    # The end

    def send_what_others_left(self, seconds: float = 15) -> None:
        """
        Sends what other processes have left on this disk for the experiment, and asks those that still run to finish. Waits
        for them `seconds` at most.
        """
        service = self.service
        if service is None:
            return
        stop = threading.Event()
        own = self.channel.folder_path if self.channel else None
        for path in find_spool_folders(self.root):
            if path != own and path.name.startswith(self.key):
                (path / FINISH_NAME).touch()

        def send() -> None:
            while not send_leftovers(self.root, service, self.faults, stop, experiment_key=self.key, own=own):
                if stop.wait(0.2):
                    return

        thread = threading.Thread(target=send, name="svc-left", daemon=True)
        thread.start()
        thread.join(seconds)
        stop.set()

    def is_asked_to_finish(self) -> bool:
        """True once another process of the experiment has called `send_what_others_left`."""
        path = self.channel.folder_path if self.channel else None
        return path is not None and (path / FINISH_NAME).exists()

    def end(self, timeout: float | None = None) -> None:
        """See RunCalls.end."""
        channel = self.channel
        if channel is None:
            return
        seconds = self.settings.end_seconds if timeout is None else timeout
        # Whoever comes second waits: a process that ends while its last points are on their way would take them with it.
        if not self._ending.acquire(timeout=seconds):
            return
        try:
            if not self._has_ended:
                self._has_ended = True
                self._end(channel, seconds)
        finally:
            self._ending.release()

    def _end(self, channel: Channel, seconds: float) -> None:
        try:
            for close in reversed(self.closers):
                close()
            self.closers.clear()
            if self._tells_end and os.getpid() == self._pid:
                self._log_end()
            has_all = channel.flush(seconds, on_wait=self._tell_wait)
            channel.close()
            if self._display_summary and os.getpid() == self._pid:
                self._tell_summary(channel, has_all)
        except Exception as error:
            self.faults.add(f"end: {error!r}", error=error)
        finally:
            process_end.unwatch(self)

    def tell_late(self, call: str) -> None:
        self.faults.add(
            f"{call}: the experiment {self.name or self.key} has ended, nothing more is logged to it. "
            "To go on with it: ExistingExperiment.",
            data_affected=call,
            once="after end",
        )

    def _tell_wait(self, what: str, seconds: float) -> None:
        kept = "the rest stays on disk" if self.channel is not None and self.channel.folder_path else "the rest is lost"
        logger.info("Waiting for %s to take %s, %.0f s at most (Ctrl-C: %s).", self.settings.url, what, seconds, kept)

    def _log_end(self) -> None:
        outcome: dict[str, Any] = {"isAlive": False}
        if self.crash is not None:
            outcome |= {"hasCrashed": True, "error": self.crash[:10_000]}
        elif not self.is_crash_told_by_others:
            outcome["hasCrashed"] = False
        self.call("/write/experiment/update-status", outcome, is_last=True)
        self.call("/write/experiment/set-start-end-time", {"endTimeMillis": now_ms()}, is_last=True)

    def _tell_summary(self, channel: Channel, has_all: bool) -> None:
        progress = channel.progress
        told = [f"{progress.sent_points:,} points in all"] if self.service else []
        if progress.rejected:
            told.append(f"{progress.rejected:,} refused by the service")
        if progress.throttled_points:
            told.append(f"{progress.throttled_points:,} points over a limit by count")
        if channel.dropped:
            told.append(f"{channel.dropped:,} dropped here because a buffer was full")
        if len(self.faults) > 0:
            told.append("see get_logging_errors()")
        logger.info(
            "Experiment %s has ended: %s. %s",
            self.name or self.key,
            ", ".join(told) or "kept on disk",
            self.link or "",
        )
        if channel.folder_path is not None and (self.service is None or not has_all):
            logger.info("To send what is on disk: svc-ml sync %s", channel.folder_path)

    # What process_end tells

    def _after_fork_in_child(self) -> None:
        self.faults.after_fork_in_child()
        self._ending = threading.RLock()
        if self.channel is not None:
            self.channel.after_fork_in_child()
        # What watches the machine and captures output goes on in the parent.
        self.closers.clear()

    def _at_exit(self, error: str | None) -> None:
        self.crash = self.crash or error
        self.end()

    def _at_termination(self, is_the_end: bool) -> None:
        if self.channel is None:
            return
        if is_the_end:
            self.crash = self.crash or "terminated (SIGTERM)"
            self.end(_TERMINATION_SECONDS)
        else:
            self.channel.write()

    def note_crash(self, error: str) -> None:
        self.crash = error


def now_ms() -> int:
    return int(time.time() * 1000)


def _advice(error: Rejected, key: str) -> str:
    if error.status == 401:
        return "Set SVC_API_KEY to a key of this service."
    if error.code == EXPERIMENT_EXISTS:
        return f"experiment_key {key!r}: go on with it by resume='allow' or resume='must', or leave the key out."
    if error.code == EXPERIMENT_UNKNOWN:
        return f"experiment_key {key!r}: Experiment(experiment_key=..., resume='allow') makes it."
    return "Mend that and start again."
