"""What is logged of a run without being asked for: its output, its surroundings, what it uses of the machine."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from svc_ml.display_calls import DisplayCalls
from svc_ml.fault import logger
from svc_ml.monitor import Monitor
from svc_ml.output import capture_output
from svc_ml.spool import record
from svc_ml.surroundings import read_git, read_git_patch, read_packages, read_system_details

_LOOK_SECONDS = 10


class Observed(DisplayCalls):
    """
    log_code, log_git_metadata, log_git_patch: what is logged of the code.
    auto_output_logging: what is printed; False leaves standard output alone.
    log_env_details: the machine and the installed packages; log_env_host: who and where it is.
    log_env_cpu (with memory and load), log_env_gpu, log_env_disk, log_env_network: what is used, at the intervals that the
    service asks for.
    display_summary: a line at the end says what was sent.
    disabled: every call succeeds, and nothing is logged.
    raise_on_error_during_init: what goes wrong at the start raises SvcError; else it is one line in the log.
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
        log_code: bool = True,
        log_git_metadata: bool = True,
        log_git_patch: bool = True,
        auto_output_logging: bool | str = True,
        log_env_details: bool = True,
        log_env_host: bool = True,
        log_env_cpu: bool = True,
        log_env_gpu: bool = True,
        log_env_disk: bool = True,
        log_env_network: bool = True,
    ) -> None:
        super().__init__(
            given,
            create=create,
            is_online=is_online,
            resume=resume,
            worker=worker,
            disabled=disabled,
            raise_on_error_during_init=raise_on_error_during_init,
            display_summary=display_summary,
        )
        self._skip_line: Callable[[str], bool] | None = None
        """Lines of output that are logged by somebody else."""
        if self._channel is None:
            return
        if auto_output_logging:
            self._closers.append(capture_output(self._log_lines))
        parts = {"cpu": log_env_cpu, "gpu": log_env_gpu, "disk": log_env_disk, "network": log_env_network}
        monitor = Monitor(
            log_call=lambda name, body: self._call(f"/write/experiment/{name}", body),
            log_point=self._log_point,
            service=self._service,
            experiment_key=self._key,
            on_status=self._note_status,
            parts=frozenset(name for name, is_on in parts.items() if is_on),
            context=self._worker,
        )
        self._closers.append(monitor.stop)
        # Of an existing experiment the code and the machine were logged by whoever made it.
        if self._is_owner:
            looks = {"code": log_code, "git": log_git_metadata, "patch": log_git_patch, "details": log_env_details}
            wanted = frozenset(name for name, is_on in looks.items() if is_on)
            look = threading.Thread(target=self._look_around, args=(wanted, log_env_host), name="svc-look", daemon=True)
            look.start()
            self._closers.append(lambda: look.join(_LOOK_SECONDS))

    def _look_around(self, wanted: frozenset[str], with_host: bool) -> None:
        try:
            script = Path(sys.argv[0]).absolute() if sys.argv and sys.argv[0] not in ("", "-c", "-m") else None
            if script is not None:
                self._call("/write/experiment/file-path", {"filePath": str(script)})
                if "code" in wanted:
                    self.log_code()
            if "details" in wanted:
                packages = read_packages()
                names = [f"{name}=={version}" for name, version in packages]
                self._call(
                    "/write/experiment/system-details", {**read_system_details(with_host), "installedPackages": names}
                )
                dependencies = [{"name": name, "version": version} for name, version in packages]
                self._call("/write/experiment/dependencies", {"logDependencies": dependencies}, "PUT")
            folder = script.parent if script is not None else Path.cwd()
            git = read_git(folder) if wanted & {"git", "patch"} else None
            if git is not None and "git" in wanted:
                self._call("/write/experiment/git/metadata", git)
            patch = read_git_patch(folder) if git is not None and "patch" in wanted else None
            if patch:
                content = {"path": "/write/experiment/git/patch", "query": {}, "file": "patch", "is_copy": True}
                self._put_files(record.FILE, content, {"patch": patch.encode()})
        except Exception as error:
            self._faults.add(f"The surroundings of the run cannot be read: {error!r}", error=error)

    def _log_lines(self, lines: list[dict[str, Any]]) -> None:
        skip, channel = self._skip_line, self._channel
        if skip is not None:
            lines = [it for it in lines if not skip(it["output"])]
        if channel is not None and lines:
            channel.put_record(record.encode_lines(lines))

    def _note_status(self, status: dict[str, Any]) -> None:
        if status.get("stopRequested") and not self.stop_requested:
            self.stop_requested = True
            logger.warning("Experiment %s was asked to stop: see experiment.stop_requested.", self._key)
