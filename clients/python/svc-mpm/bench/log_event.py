"""
How long a call of `log_event` takes, and how many events a second one process gets stored until they can be read.

    SVC_URL=... SVC_API_KEY=... python log_event.py [--events 100000] [--features 20]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import urllib.parse
import urllib.request
import uuid

from svc_mpm import SvcMPM


def count_stored(model: str, workspace: str) -> int:
    query = urllib.parse.urlencode({"workspaceName": workspace, "modelName": model})
    request = urllib.request.Request(f"{os.environ['SVC_URL']}/mpm/v2/models?{query}")
    request.add_header("Authorization", os.environ["SVC_API_KEY"])
    with urllib.request.urlopen(request, timeout=30) as answer:
        models = json.load(answer)["models"]
    return sum(version["events"] for it in models for version in it["versions"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--workspace", default="default")
    given = parser.parse_args()
    os.environ.setdefault("SVC_URL", "http://127.0.0.1:8080")
    # Room for all: what is measured is the call, and not how long it waits for the service.
    os.environ["SVC_MPM_QUEUE_BYTES"] = str(4 * 1024**3)
    model = f"bench-{uuid.uuid4().hex[:8]}"
    mpm = SvcMPM(workspace_name=given.workspace, model_name=model, raise_on_error_during_init=True)
    features = {f"feature_{it}": it * 1.25 + 0.1 for it in range(given.features)}
    ids = [uuid.uuid4().hex for _ in range(given.events)]
    nanoseconds = []
    began = time.perf_counter()
    for prediction_id in ids:
        start = time.perf_counter_ns()
        mpm.log_event(prediction_id, features, output_features={"value": 1, "probability": 0.5})
        nanoseconds.append(time.perf_counter_ns() - start)
    mpm.end(600)
    while count_stored(model, given.workspace) < given.events:
        time.sleep(0.05)
    seconds = time.perf_counter() - began
    nanoseconds.sort()
    print(f"{given.events:,} events of {given.features} features; errors: {len(mpm.get_logging_errors())}")
    print(f"log_event: median {statistics.median(nanoseconds) / 1000:.1f} us", end=", ")
    print(f"p99 {nanoseconds[len(nanoseconds) * 99 // 100] / 1000:.1f} us")
    print(f"until readable: {given.events / seconds:,.0f} events/s")


if __name__ == "__main__":
    main()
