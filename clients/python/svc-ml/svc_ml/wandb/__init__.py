"""
Scripts written for W&B log to svc by `import svc_ml.wandb as wandb`. See docs/wandb.md for what becomes of each call, and what is not
carried over.
"""

from __future__ import annotations

from typing import Any, NoReturn, Optional

from svc_ml.wandb import errors, plot, util
from svc_ml.wandb.absent import Absent
from svc_ml.wandb.artifact import Artifact
from svc_ml.wandb.errors import CommError, Error, UsageError
from svc_ml.wandb.last_values import Summary
from svc_ml.wandb.media import Audio, Histogram, Html, Image, Object3D, Video
from svc_ml.wandb.parameters import Config
from svc_ml.wandb.session import (
    current,
    finish,
    init,
    log,
    login,
    need,
    require,
    setup,
    termerror,
    termlog,
    termwarn,
)
from svc_ml.wandb.table import Table
from svc_ml.wandb.wandb_run import AlertLevel, Run

__all__ = [
    "AlertLevel",
    "Artifact",
    "Audio",
    "CommError",
    "Config",
    "Error",
    "Histogram",
    "Html",
    "Image",
    "Object3D",
    "Run",
    "Summary",
    "Table",
    "UsageError",
    "Video",
    "config",
    "errors",
    "finish",
    "init",
    "log",
    "login",
    "plot",
    "require",
    "run",
    "setup",
    "summary",
    "termerror",
    "termlog",
    "termwarn",
    "util",
]

run: Optional[Run]
config: Config
summary: Summary

_OF_RUN = frozenset(
    [
        *("alert", "config", "define_metric", "log_artifact", "log_code", "log_model"),
        *("mark_preempting", "save", "summary", "unwatch", "use_artifact", "watch"),
    ]
)
_SWEEPS = frozenset(["agent", "controller", "launch", "launch_add", "sweep"])


def teardown(exit_code: int | None = None) -> None:
    finish(exit_code)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "run":
        return current()
    if name in _OF_RUN:
        return getattr(need(name), name)
    if name in _SWEEPS:
        return _refuse_sweep
    return Absent(f"wandb.{name}")


def _refuse_sweep(*given: Any, **named: Any) -> NoReturn:
    raise UsageError("svc runs no sweeps: use Optuna or Ray Tune with svc_ml.integration.optuna or .tune.")
