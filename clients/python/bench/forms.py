"""
Points as JSON beside points as Arrow, in turns: the CPU that one costs svc_ml (to encode and send it) and the service with its
stores (to take and store it), for requests as a trainer makes them and as an import does. Both forms are forced: the client itself
sends fewer than 100 points as JSON.

    python clients/python/bench/forms.py --rounds 3
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

from compare import svc

from svc_ml.fault import Faults
from svc_ml.spool import record
from svc_ml.transport.delivery import Delivery, Progress, Registration
from svc_ml.transport.service import Service

SHAPES = {
    "10 metrics x 5 points": (10, 5, 400),
    "100 metrics x 1 point": (100, 1, 200),
    "100 metrics x 20 points": (100, 20, 40),
    "1 metric x 20,000 points": (1, 20_000, 10),
}
"""Metrics, points of each, requests."""
TICK = os.sysconf("SC_CLK_TCK")
REST_SECONDS = 2


def service_seconds() -> float:
    """CPU of all processes below this one, those that have ended included."""
    stats = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        stats[int(folder.name)] = (int(fields[1]), sum(map(int, fields[11:15])))

    def is_below(pid: int) -> bool:
        parent = stats.get(pid, (0, 0))[0]
        return parent == os.getpid() or (parent > 1 and is_below(parent))

    return sum(ticks for pid, (_, ticks) in stats.items() if is_below(pid)) / TICK


def measure(url: str, key: str, metrics: int, points: int, requests: int) -> tuple[float, float]:
    """Microseconds of CPU for each point, of the client and of the service."""
    name = os.urandom(16).hex()
    delivery = Delivery(
        Service(url, key),
        Registration(name, {"projectName": "forms"}, may_exist=True),
        folder=Path(),
        context="",
        faults=Faults(),
        progress=Progress(),
        stop=threading.Event(),
        hurry=threading.Event(),
    )
    delivery.deliver([], "create")
    before, client = service_seconds(), 0.0
    for number in range(requests):
        steps = range(number * points, (number + 1) * points)
        logged: list[record.Point] = [
            (f"metric_{metric}", "", 1 / (step + metric + 1), step, None, 1_764_000_000_000 + step)
            for step in steps
            for metric in range(metrics)
        ]
        began = time.process_time()
        delivery.deliver([record.encode_points(logged)], f"{name}-{number}")
        client += time.process_time() - began
    time.sleep(REST_SECONDS)
    count = metrics * points * requests
    return 1e6 * client / count, 1e6 * (service_seconds() - before) / count


def main() -> None:
    parser = argparse.ArgumentParser(description="Points as JSON beside points as Arrow: CPU of client and service.")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    os.environ["SVC_POINTS_PER_MINUTE"] = "1000000000"
    folder = Path(tempfile.mkdtemp(prefix="svc-forms-"))
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    try:
        with svc(folder) as (_python, url, environment):
            for _ in range(given.rounds):
                for shape, sizes in SHAPES.items():
                    for form, limit in (("JSON", 1 << 62), ("Arrow", 0)):
                        record._ARROW_POINTS_LEAST = limit
                        taken = measure(url, environment["SVC_API_KEY"], *sizes)
                        found.setdefault((shape, form), []).append(taken)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("| a request | form | client, us a point | service, us a point |\n| --- | --- | ---: | ---: |")
    for (shape, form), taken in found.items():
        client, service = (statistics.median(it) for it in zip(*taken))
        print(f"| {shape} | {form} | {client:.2f} | {service:.2f} |")


if __name__ == "__main__":
    main()
