"""What is logged of a run without being asked for: its output, its surroundings, what it uses of the machine."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from svc_ml.calls.upload import put_files
from svc_ml.fault import logger
from svc_ml.monitor import Monitor
from svc_ml.output import capture_output
from svc_ml.run import Run
from svc_ml.spool import record
from svc_ml.surroundings import read_git, read_git_patch, read_packages, read_system_details

_LOOK_SECONDS = 10


def observe(
    run: Run,
    log_script: Callable[[], Any],
    *,
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
    """
    Begins what ends with the run; of a disabled one nothing.

    log_script: logs the script that runs.
    The others: see BaseExperiment.
    """
    if run.channel is None:
        return
    if auto_output_logging:
        run.closers.append(capture_output(lambda lines: _log_lines(run, lines)))
    parts = {"cpu": log_env_cpu, "gpu": log_env_gpu, "disk": log_env_disk, "network": log_env_network}
    monitor = Monitor(
        log_call=lambda name, body: run.call(f"/write/experiment/{name}", body),
        log_point=run.log_point,
        service=run.service,
        experiment_key=run.key,
        on_status=lambda status: _note_status(run, status),
        parts=frozenset(name for name, is_on in parts.items() if is_on),
        context=run.worker,
    )
    run.closers.append(monitor.stop)
    # Of an existing experiment the code and the machine were logged by whoever made it.
    if run.is_owner:
        looks = {"code": log_code, "git": log_git_metadata, "patch": log_git_patch, "details": log_env_details}
        wanted = frozenset(name for name, is_on in looks.items() if is_on)
        given = (run, log_script, wanted, log_env_host)
        look = threading.Thread(target=_look_around, args=given, name="svc-look", daemon=True)
        look.start()
        run.closers.append(lambda: look.join(_LOOK_SECONDS))


def _look_around(run: Run, log_script: Callable[[], Any], wanted: frozenset[str], with_host: bool) -> None:
    try:
        script = Path(sys.argv[0]).absolute() if sys.argv and sys.argv[0] not in ("", "-c", "-m") else None
        if script is not None:
            run.call("/write/experiment/file-path", {"filePath": str(script)})
            if "code" in wanted:
                log_script()
        if "details" in wanted:
            packages = read_packages()
            names = [f"{name}=={version}" for name, version in packages]
            run.call("/write/experiment/system-details", {**read_system_details(with_host), "installedPackages": names})
            dependencies = [{"name": name, "version": version} for name, version in packages]
            run.call("/write/experiment/dependencies", {"logDependencies": dependencies}, "PUT")
        folder = script.parent if script is not None else Path.cwd()
        git = read_git(folder) if wanted & {"git", "patch"} else None
        if git is not None and "git" in wanted:
            run.call("/write/experiment/git/metadata", git)
        patch = read_git_patch(folder) if git is not None and "patch" in wanted else None
        if patch:
            content = {"path": "/write/experiment/git/patch", "query": {}, "file": "patch", "is_copy": True}
            put_files(run, record.FILE, content, {"patch": patch.encode()})
    except Exception as error:
        run.faults.add(f"The surroundings of the run cannot be read: {error!r}", error=error)


def _log_lines(run: Run, lines: list[dict[str, Any]]) -> None:
    skip, channel = run.skip_line, run.channel
    if skip is not None:
        lines = [it for it in lines if not skip(it["output"])]
    if channel is not None and lines:
        channel.put_record(record.encode_lines(lines))


def _note_status(run: Run, status: dict[str, Any]) -> None:
    if status.get("stopRequested") and not run.stop_requested:
        run.stop_requested = True
        logger.warning("Experiment %s was asked to stop: see experiment.stop_requested.", run.key)
