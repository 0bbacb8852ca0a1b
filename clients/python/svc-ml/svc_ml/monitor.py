"""The thread that says that a run goes on, and reports what it uses of the machine, at the intervals the service asks for."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil

from svc_ml import gpu
from svc_ml.fault import SvcError
from svc_ml.transport.service import Service

_DEFAULT_SECONDS = 15.0
_DEFAULT_BEAT_SECONDS = 10.0
_FIRST_READING_SECONDS = 0.1
"""How long the first utilization is measured over. psutil asks for no less."""
_WAIT_SECONDS = 10.0


class Monitor:
    """
    However short the run is, the machine is read once.

    log_call: writes one of the calls `cpu-metrics`, `ram-metrics`, `load-metrics`, `gpu-metrics`, by its path and body.
    log_point: writes a point; the use of disk and network has no call of its own, so it is logged as metrics `sys.*`.
    on_status: is given every answer of the keep-alive.
    """

    def __init__(
        self,
        *,
        log_call: Callable[[str, dict[str, Any]], None],
        log_point: Callable[[str, float], None],
        service: Service | None,
        experiment_key: str,
        on_status: Callable[[dict[str, Any]], None],
        parts: frozenset[str],
        context: str,
    ) -> None:
        self._log_call = log_call
        self._log_point = log_point
        self._service = service
        self._experiment_key = experiment_key
        self._on_status = on_status
        self._parts = parts
        self._context = context
        self._stop = threading.Event()
        self._has_read = threading.Event()
        self._seconds = {"beat": _DEFAULT_BEAT_SECONDS, "cpu": _DEFAULT_SECONDS, "gpu": _DEFAULT_SECONDS}
        self._process = psutil.Process()
        self._before: tuple[float, dict[str, float]] | None = None
        self._thread = threading.Thread(target=self._run, name="svc-monitor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        # Of a run of some milliseconds the thread may not have begun. What it waits for then is this machine, not the service.
        self._has_read.wait(_WAIT_SECONDS)
        self._thread.join(2)

    def _run(self) -> None:
        jobs = {"beat": self._beat, "cpu": self._read_machine, "gpu": self._read_gpus}
        try:
            # The first reading of a utilization is only the begin of an interval.
            psutil.cpu_percent(percpu=True)
            self._process.cpu_percent()
            self._stop.wait(_FIRST_READING_SECONDS)
            _try(self._read_machine)
        finally:
            self._has_read.set()
        last = {"beat": -math.inf, "cpu": time.monotonic(), "gpu": -math.inf}
        while not self._stop.is_set():
            for name, job in jobs.items():
                if time.monotonic() >= last[name] + self._seconds[name]:
                    _try(job)
                    last[name] = time.monotonic()
            next_due = min(last[name] + self._seconds[name] for name in jobs)
            self._stop.wait(max(0.05, next_due - time.monotonic()))

    def _beat(self) -> None:
        if self._service is None:
            return
        try:
            status = self._service.get("/write/experiment/set-status", {"experimentKey": self._experiment_key}, 10)
        except SvcError:
            return
        for name, field in (
            ("beat", "isAliveBeatDurationMillis"),
            ("cpu", "cpuMonitorIntervalMillis"),
            ("gpu", "gpuMonitorIntervalMillis"),
        ):
            self._seconds[name] = max(0.1, int(status[field]) / 1000)
        self._on_status(status)

    def _read_machine(self) -> None:
        at = {"timestamp": int(time.time() * 1000), **({"context": self._context} if self._context else {})}
        if "cpu" in self._parts:
            cpus = [max(0.0, min(100.0, it)) for it in psutil.cpu_percent(percpu=True)]
            memory = psutil.virtual_memory()
            self._log_call("cpu-metrics", {"cpuPercentUtilization": cpus, **at})
            self._log_call("ram-metrics", {"totalRam": memory.total, "usedRam": memory.used, **at})
            self._log_call("load-metrics", {"loadAverage": psutil.getloadavg()[0], **at})
            self._log_point("sys.process.cpu_percent", self._process.cpu_percent())
            self._log_point("sys.process.memory", self._process.memory_info().rss)
        if "disk" in self._parts:
            usage = psutil.disk_usage(os.getcwd())
            self._log_point("sys.disk.used", usage.used)
            self._log_point("sys.disk.total", usage.total)
        for name, rate in self._read_rates().items():
            self._log_point(name, rate)

    def _read_rates(self) -> dict[str, float]:
        """Bytes a second since the last reading."""
        counts: dict[str, float] = {}
        disk = psutil.disk_io_counters() if "disk" in self._parts else None
        if disk is not None:
            counts |= {"sys.disk.read_bytes_per_s": disk.read_bytes, "sys.disk.written_bytes_per_s": disk.write_bytes}
        network = psutil.net_io_counters() if "network" in self._parts else None
        if network is not None:
            counts["sys.network.received_bytes_per_s"] = network.bytes_recv
            counts["sys.network.sent_bytes_per_s"] = network.bytes_sent
        now = time.monotonic()
        before, self._before = self._before, (now, counts)
        if before is None:
            return {}
        seconds = max(1e-3, now - before[0])
        return {name: max(0.0, count - before[1].get(name, count)) / seconds for name, count in counts.items()}

    def _read_gpus(self) -> None:
        gpus = gpu.read_usage() if "gpu" in self._parts else []
        if gpus:
            at = {"timestamp": int(time.time() * 1000), **({"context": self._context} if self._context else {})}
            self._log_call("gpu-metrics", {"gpus": gpus, **at})


def _try(job: Callable[[], None]) -> None:
    try:
        job()
    except Exception:
        # A reading that the machine does not offer, or a service that is away: the next one may come.
        pass
