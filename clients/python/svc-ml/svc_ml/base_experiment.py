"""All calls upon one run, and how it travels to other processes."""

from __future__ import annotations

import multiprocessing.context
import os
import threading
from typing import Any

from svc_ml import process_end
from svc_ml.calls.displays import DisplayCalls
from svc_ml.calls.files import FileCalls
from svc_ml.calls.lifecycle import RunCalls
from svc_ml.calls.values import ValueCalls
from svc_ml.observation import observe
from svc_ml.run import Run


class BaseExperiment(ValueCalls, FileCalls, DisplayCalls, RunCalls):
    """
    Every call may come from any thread, and after a fork; none raises.

    What the kinds of experiments take:

    log_code, log_git_metadata, log_git_patch: what is logged of the code.
    auto_output_logging: what is printed; False leaves standard output alone.
    log_env_details: the machine and the installed packages; log_env_host: who and where it is.
    log_env_cpu (with memory and load), log_env_gpu, log_env_disk, log_env_network: what is used, at the intervals that the
    service asks for.
    display_summary: a line at the end says what was sent.
    disabled: every call succeeds, and nothing is logged.
    raise_on_error_during_init: what goes wrong at the start raises SvcError; else it is one line in the log.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def __reduce__(self) -> tuple[Any, ...]:
        """
        What another process gets is the same experiment, gone on with, and the same run however often it is sent there. The key
        travels to processes that this one spawns, and nowhere else: a pickle may be stored or sent over a network.
        """
        run = self._run
        if run.channel is None:
            return disabled_experiment, ()
        settings = {**run.settings.__dict__, "experiment_key": run.key}
        if multiprocessing.context.get_spawning_popen() is None:
            del settings["api_key"]
        return _reopen, (settings, run.is_online)


def disabled_experiment() -> BaseExperiment:
    return BaseExperiment(Run({}, create=None, is_online=True, disabled=True))


def _reopen(settings: dict[str, Any], is_online: bool) -> BaseExperiment:
    # A pool sends it along with every task.
    with _reopening:
        for run in process_end.open_experiments():
            if isinstance(run, Run) and (run.key, run.is_online) == (settings["experiment_key"], is_online):
                return BaseExperiment(run)
        run = Run(settings, create=None, is_online=is_online, display_summary=False)
        experiment = BaseExperiment(run)
        # The machine is watched by whoever made the experiment.
        observe(
            run,
            experiment.log_code,
            log_env_cpu=False,
            log_env_gpu=False,
            log_env_disk=False,
            log_env_network=False,
        )
        _reopened[run.key] = run
        return experiment


_reopened: dict[str, Run] = {}
"""Those that came from other processes, by key, until this process ends: between two tasks nobody else holds them."""
_reopening = threading.Lock()


def _forget_lock() -> None:
    """Another thread may have held it when this process was forked."""
    global _reopening
    _reopening = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)
