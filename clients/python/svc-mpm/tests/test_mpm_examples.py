"""What the README and the examples say works as it stands there."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from mpm_events import environment, expect_event

from conftest import Service, eventually

HERE = Path(__file__).parents[1]


def test_the_start_in_the_readme_logs_an_event_and_its_label(service: Service) -> None:
    program = re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL)[0]
    assert len([it for it in program.splitlines() if it]) <= 10
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment(service),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    expect_event(
        service,
        "fraud",
        "order-17",
        features={"amount": ("float", 12.5), "country": ("string", "NL")},
        prediction={"value": ("string", "ok"), "probability": ("float", 0.93)},
        labels={"value": ("string", "fraud")},
        modelVersion="1.0.0",
    )


def test_the_inference_server_has_sent_what_it_predicted_when_it_is_stopped(service: Service) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, str(HERE / "examples" / "inference_server.py")],
        env=os.environ | environment(service, PORT=str(port)),
    )

    def call(path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode())
        request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return dict(json.load(answer))

    try:
        predicted = eventually(lambda: call("/predict", {"amount": 750.5, "country": "NL"}))
        call("/outcome", {"prediction_id": predicted["prediction_id"], "fraud": False})
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    finally:
        server.kill()
        server.wait()
    assert predicted["fraud"] is True
    expect_event(
        service,
        "fraud",
        predicted["prediction_id"],
        features={"amount": ("float", 750.5), "country": ("string", "NL")},
        prediction={"value": ("boolean", True), "probability": ("float", 0.7505)},
        labels={"value": ("boolean", False)},
    )
