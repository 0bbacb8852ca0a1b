"""What was logged beside what can be read, point by point."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from conftest import Service

quiet: dict[str, Any] = {
    "auto_output_logging": False,
    "log_env_details": False,
    "log_env_cpu": False,
    "log_env_disk": False,
    "log_env_network": False,
    "log_code": False,
    "log_git_metadata": False,
    "log_git_patch": False,
}
"""Nothing is logged but what the test logs, so that it can count."""


def read_points(service: Service, key: str, metric: str) -> list[tuple[int | None, float]]:
    """Step and value of every stored point, in the order of steps."""
    answer = service.get(f"/api/rest/v2/experiment/metrics/get-metric?experimentKey={key}&metricName={metric}")
    points = [(it["step"], float(it["metricValue"])) for it in answer["metrics"]]
    return sorted(points, key=lambda it: (it[0] is None, it[0] or 0, it[1]))


def read_values(service: Service, key: str, what: str) -> dict[str, str]:
    """Parameters (`parameters`), others (`log-other`) or the last values of metrics (`metrics/summary`) by name."""
    answer = service.get(f"/api/rest/v2/experiment/{what}?experimentKey={key}")
    return {it["name"]: it["valueCurrent"] for it in answer["values"]}


def read(service: Service, key: str, what: str, **query: Any) -> Any:
    more = "".join(f"&{name}={value}" for name, value in query.items())
    return service.get(f"/api/rest/v2/experiment/{what}?experimentKey={key}{more}")


def environment(service: Service, folder: Path) -> dict[str, str]:
    """Settings for a process that logs to the service and keeps its spools in a folder of the test's own."""
    return {
        "SVC_URL": service.url,
        "SVC_API_KEY": service.api_key,
        "SVC_WORKSPACE": service.workspace,
        "SVC_PROJECT_NAME": "clients",
        "SVC_SPOOL_DIRECTORY": str(folder / "spool"),
        "SVC_OFFLINE_DIRECTORY": str(folder / "offline"),
    }


def start_script(script: str, variables: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    """Runs Python text in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_script(script: str, variables: dict[str, str], *arguments: str, seconds: float = 300) -> tuple[str, str]:
    """Its standard output and error; it must end well."""
    process = start_script(script, variables, *arguments)
    try:
        output, errors = process.communicate(timeout=seconds)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    return output, errors


def sync(folder: Path, variables: dict[str, str], *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "svc_ml.command", "sync", str(folder), *more]
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=180)
