"""What every kind of experiment shares: how it is opened and how it ends."""

from __future__ import annotations

import functools
import multiprocessing.context
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Optional, TypeVar, cast

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

Kind = TypeVar("Kind", bound="Run")
Call = TypeVar("Call", bound=Callable[..., Any])


def never_raises(call: Call) -> Call:
    """Makes a call one that cannot stop a training run: what goes wrong is logged and kept for `get_logging_errors`."""

    @functools.wraps(call)
    def guarded(self: Run, *given: Any, **named: Any) -> Any:
        if self._channel is None:
            return None
        if self._channel.is_closed:
            self._tell_late(call.__name__)
            return None
        try:
            return call(self, *given, **named)
        except SvcError as error:
            self._faults.add(f"{call.__name__}: {error}", data_affected=call.__name__)
        except Exception as error:
            self._faults.add(f"{call.__name__}: {error!r}", data_affected=call.__name__, error=error)
        return None

    return cast(Call, guarded)


class Run:
    """
    One experiment as this process logs to it. Every call may come from any thread, and after a fork; none raises.

    A disabled one takes every call and does nothing.

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
        self._faults = Faults()
        self._channel: Optional[Channel] = None
        self._context = ""
        """The context of points outside of any `context_manager`."""
        self._worker = worker
        # Also of one that cannot be opened: nothing that looks at them may fail.
        self._settings = Settings()
        self._service: Service | None = None
        self._root = Path()
        self.opened_seconds = int(time.time())
        """When this process opened it, in seconds since the Unix epoch."""
        self._resume = resume
        self._step: int | None = None
        self._epoch: int | None = None
        self._pid = os.getpid()
        self._name: str | None = None
        self._link: str | None = None
        self._crash: str | None = None
        self._is_crash_told_by_others = False
        """Another process says whether the run has failed, and may say so later than this one."""
        self._has_ended = False
        self._display_summary = display_summary
        self._closers: list[Callable[[], None]] = []
        create = None if resume == "must" else create
        self._is_owner = create is not None
        """This process made the experiment: what is known of its surroundings is logged by nobody else."""
        self._tells_end = self._is_owner or resume != "never"
        self._is_online = is_online
        self._key = str(given.get("experiment_key") or "")
        self.stop_requested = False
        """True once somebody has asked the service to stop this experiment; the training loop decides what to make of it."""
        if disabled:
            return
        try:
            self._open(read_settings(given), create, is_online, raise_on_error_during_init)
        except Exception as error:
            if raise_on_error_during_init:
                raise
            self._faults.add(f"Nothing is logged: {error}", error=None if isinstance(error, SvcError) else error)

    def _open(self, settings: Settings, create: dict[str, Any] | None, is_online: bool, raises: bool) -> None:
        self._settings = settings
        if self._resume not in _RESUMES:
            raise SvcError(f"resume is {self._resume!r}: expected 'never', 'allow' or 'must'.")
        self._key = settings.experiment_key or (secrets.token_hex(16) if create is not None else "")
        if not self._key:
            why = " for resume='must'" if self._resume == "must" else ""
            raise SvcError(f"No experiment key{why}: give experiment_key, or set SVC_EXPERIMENT_KEY.")
        if not (32 <= len(self._key) <= 50 and self._key.isascii() and self._key.isalnum()):
            raise SvcError(
                f"experiment_key {self._key!r}: must have 32 to 50 letters and digits; leave it out to get one."
            )
        if create is not None:
            create = {
                "workspaceName": settings.workspace,
                "projectName": settings.project_name or _DEFAULT_PROJECT,
                **create,
            }
        # A key that was drawn here is nobody else's.
        registration = Registration(self._key, create, self._resume == "allow" or settings.experiment_key is None)
        self._service = service = Service(settings.url, settings.api_key) if is_online and settings.api_key else None
        root = Path(settings.spool_directory if is_online else settings.offline_directory).expanduser().absolute()
        self._root = root
        if is_online and service is None:
            message = "No API key: give api_key, set SVC_API_KEY, or write it into ~/.svc.config."
            if raises:
                raise SvcError(message)
            self._faults.add(f"{message} What is logged is kept in {root}; with a key, svc-ml sync {root} sends it.")
        if service is not None:
            self._register(service, registration, raises)
        self._channel = Channel(
            settings,
            root,
            self._key,
            registration=registration,
            service=service,
            context=self._worker,
            faults=self._faults,
            at_start=process_end.watch_forked_process,
        )
        self._name = self._name or registration.answer.get("name") or (create or {}).get("experimentName")
        self._link = registration.answer.get("link")
        process_end.watch(self)
        if service is not None:
            self._send_leftovers(service)

    def _send_leftovers(self, service: Service) -> None:
        stop = threading.Event()
        given = (self._root, service, self._faults, stop)
        threading.Thread(target=send_leftovers, args=given, name="svc-leftovers", daemon=True).start()
        self._closers.append(stop.set)

    def _register(self, service: Service, registration: Registration, raises: bool) -> None:
        try:
            if registration.create is not None:
                registration.ensure(service, self._settings.init_seconds)
            if not registration.answer:
                self._is_owner = False
                query = {"experimentKey": self._key}
                found = service.get("/experiment/metadata", query, self._settings.init_seconds)
                self._name = found.get("experimentName")
        except Unavailable as error:
            if raises:
                raise SvcError(f"{error}. Start the service there, or set SVC_URL to its address.") from error
            self._faults.add(f"{error}: what is logged is kept in {self._root} and sent later.", once="unavailable")
        except Rejected as error:
            advice = _advice(error, self._key)
            if raises:
                raise SvcError(f"{error} {advice}") from error
            self._faults.add(f"{error} {advice} What is logged is kept in {self._root}.", once="barred")

    def _log_point(self, name: str, value: float) -> None:
        """A point of the machine: it belongs to no step."""
        channel = self._channel
        if channel is not None and not channel.is_closed:
            channel.points.append((name, self._worker, float(value), None, None, now_ms()))
            if channel.is_idle:
                channel.wake()

    # What is known of it

    @property
    def id(self) -> str:
        return self._key

    @property
    def url(self) -> str | None:
        """Where people look at it; None until the service was reached."""
        return self._link

    @property
    def disabled(self) -> bool:
        return self._channel is None

    def get_key(self) -> str:
        return self._key

    def get_name(self) -> str | None:
        return self._name

    def get_logging_errors(self, clear: bool = True) -> list[dict[str, Any]]:
        """
        What went wrong in the background, the last 1,000. Each has `message`, `logger_name`, `timestamp` (ISO), and where
        known `data_affected` and `traceback`.
        """
        return self._faults.read(clear)

    def has_logging_error(self) -> bool:
        return len(self._faults) > 0

    def display(self, width: str = "100%", height: str = "800px") -> None:
        """Shows the experiment's page in a notebook; elsewhere prints its link."""
        try:
            from IPython import get_ipython  # type: ignore[import-not-found, unused-ignore]
            from IPython.display import IFrame, display  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            get_ipython = None
        if get_ipython is not None and get_ipython() is not None and self._link:
            display(IFrame(_to_embed(self._link), width=width, height=height))
        else:
            logger.info("Experiment %s: %s", self._key, self._link or "not at the service yet")

    def _repr_html_(self) -> str:
        import html

        if not self._link:
            return f"<code>{html.escape(self._key)}</code>"
        address = html.escape(self._link, quote=True)
        return f'<a href="{address}" target="_blank" rel="noopener">{html.escape(self._name or self._key)}</a>'

    # The end

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until the service has everything, `timeout` seconds at most. False when it has not."""
        channel = self._channel
        if channel is None:
            return True
        try:
            return channel.flush(self._settings.end_seconds if timeout is None else timeout)
        except Exception as error:
            self._faults.add(f"flush: {error!r}", error=error)
            return False

    def write(self) -> None:
        """Brings everything to disk, where it outlives this process."""
        if self._channel is not None:
            self._channel.write()

    def send_what_others_left(self, seconds: float = 15) -> None:
        """
        Sends what other processes have left on this disk for the experiment, and asks those that still run to finish. Waits
        for them `seconds` at most.
        """
        service = self._service
        if service is None:
            return
        stop = threading.Event()
        own = self._channel.folder_path if self._channel else None
        for path in find_spool_folders(self._root):
            if path != own and path.name.startswith(self._key):
                (path / FINISH_NAME).touch()

        def send() -> None:
            while not send_leftovers(self._root, service, self._faults, stop, experiment_key=self._key, own=own):
                if stop.wait(0.2):
                    return

        thread = threading.Thread(target=send, name="svc-left", daemon=True)
        thread.start()
        thread.join(seconds)
        stop.set()

    def is_asked_to_finish(self) -> bool:
        """True once another process of the experiment has called `send_what_others_left`."""
        path = self._channel.folder_path if self._channel else None
        return path is not None and (path / FINISH_NAME).exists()

    def end(self, timeout: float | None = None) -> None:
        """
        Sends what is left and closes the experiment; what is logged afterwards is ignored. Waits `timeout` seconds at most (the
        setting `end_seconds`), less when the service does nothing. What could not be sent stays on disk, and is sent by
        `svc-ml sync` or when the next experiment starts.
        """
        if self._has_ended or self._channel is None:
            return
        self._has_ended = True
        process_end.unwatch(self)
        channel = self._channel
        try:
            for close in reversed(self._closers):
                close()
            self._closers.clear()
            if self._tells_end and os.getpid() == self._pid:
                self._log_end()
            seconds = self._settings.end_seconds if timeout is None else timeout
            has_all = channel.flush(seconds, on_wait=self._tell_wait)
            channel.close()
            if self._display_summary and os.getpid() == self._pid:
                self._tell_summary(channel, has_all)
        except Exception as error:
            self._faults.add(f"end: {error!r}", error=error)

    def _tell_late(self, call: str) -> None:
        self._faults.add(
            f"{call}: the experiment {self._name or self._key} has ended, nothing more is logged to it. "
            "To go on with it: ExistingExperiment.",
            data_affected=call,
            once="after end",
        )

    def _tell_wait(self, what: str, seconds: float) -> None:
        kept = (
            "the rest stays on disk" if self._channel is not None and self._channel.folder_path else "the rest is lost"
        )
        logger.info("Waiting for %s to take %s, %.0f s at most (Ctrl-C: %s).", self._settings.url, what, seconds, kept)

    def _log_end(self) -> None:
        outcome: dict[str, Any] = {"isAlive": False}
        if self._crash is not None:
            outcome |= {"hasCrashed": True, "error": self._crash[:10_000]}
        elif not self._is_crash_told_by_others:
            outcome["hasCrashed"] = False
        self._call("/write/experiment/update-status", outcome, is_last=True)
        self._call("/write/experiment/set-start-end-time", {"endTimeMillis": now_ms()}, is_last=True)

    def _tell_summary(self, channel: Channel, has_all: bool) -> None:
        progress = channel.progress
        told = [f"{progress.sent_points:,} points in all"] if self._service else []
        if progress.rejected:
            told.append(f"{progress.rejected:,} refused by the service")
        if progress.throttled_points:
            told.append(f"{progress.throttled_points:,} points over a limit by count")
        if channel.dropped:
            told.append(f"{channel.dropped:,} dropped here because a buffer was full")
        if self.has_logging_error():
            told.append("see get_logging_errors()")
        logger.info(
            "Experiment %s has ended: %s. %s",
            self._name or self._key,
            ", ".join(told) or "kept on disk",
            self._link or "",
        )
        if channel.folder_path is not None and (self._service is None or not has_all):
            logger.info("To send what is on disk: svc-ml sync %s", channel.folder_path)

    def __enter__(self: Kind) -> Kind:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not process_end.is_good_exit(error):
            self._note_crash(process_end.describe(error))
        self.end()

    def __reduce__(self) -> tuple[Any, ...]:
        """
        What another process gets is the same experiment, gone on with, and the same object however often it is sent there. The
        key travels to processes that this one spawns, and nowhere else: a pickle may be stored or sent over a network.
        """
        if self._channel is None:
            return _reopen, (None, True)
        settings = {**self._settings.__dict__, "experiment_key": self._key}
        if multiprocessing.context.get_spawning_popen() is None:
            del settings["api_key"]
        return _reopen, (settings, self._is_online)

    # What process_end tells

    def _after_fork_in_child(self) -> None:
        self._faults.after_fork_in_child()
        if self._channel is not None:
            self._channel.after_fork_in_child()
        # What watches the machine and captures output goes on in the parent.
        self._closers.clear()

    def _at_exit(self, error: str | None) -> None:
        self._crash = self._crash or error
        self.end()

    def _at_termination(self, is_the_end: bool) -> None:
        if self._channel is None:
            return
        if is_the_end:
            self._crash = self._crash or "terminated (SIGTERM)"
            self.end(_TERMINATION_SECONDS)
        else:
            self._channel.write()

    def _note_crash(self, error: str) -> None:
        self._crash = error

    def _call(self, path: str, body: dict[str, Any], method: str = "POST", is_last: bool = False) -> None:
        if self._channel is not None:
            self._channel.put(record.CALL, {"method": method, "path": path, "body": body}, is_last)


def _reopen(settings: dict[str, Any] | None, is_online: bool) -> Run:
    # Only here: it is built upon this module.
    from svc_ml.observation import Observed

    if settings is None:
        return Observed({}, create=None, is_online=is_online, disabled=True)
    # A pool sends it along with every task.
    with _reopening:
        for run in process_end.open_experiments():
            if isinstance(run, Run) and run.id == settings["experiment_key"] and run._is_online == is_online:
                return run
        # The machine is watched by whoever made the experiment.
        run = Observed(
            settings,
            create=None,
            is_online=is_online,
            display_summary=False,
            log_env_cpu=False,
            log_env_gpu=False,
            log_env_disk=False,
            log_env_network=False,
        )
        _reopened[run.id] = run
        return run


_reopened: dict[str, Run] = {}
"""Those that came from other processes, by key, until this process ends: between two tasks nobody else holds them."""
_reopening = threading.Lock()


def _forget_lock() -> None:
    """Another thread may have held it when this process was forked."""
    global _reopening
    _reopening = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


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


def _to_embed(link: str) -> str:
    """The address of an experiment's page for a frame: the service lets no page frame any other."""
    base, workspace, project, key = link.rsplit("/", 3)
    return f"{base}/-/embed/{workspace}/{project}/{key}"
