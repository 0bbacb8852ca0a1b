"""
svc_ml beside W&B offline, MLflow, trackio, SwanLab in its local mode, and comet_ml against svc, in turns and in one run, each client
with its own server on this machine if it has one:

    pip install './clients/python/svc-ml[test]'
    python clients/python/bench/compare.py --install --rounds 3
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]
PEERS = Path(os.environ.get("BENCH_PEERS") or ROOT / "bench" / ".peers")
PINNED = {"wandb": "0.31.0", "mlflow": "3.17.2", "trackio": "0.43.0", "swanlab": "0.10.3", "comet_ml": "3.58.8"}
MEASURES = ("calls", "stream", "disk", "training")
KEY = "key-of-the-client-bench-0123456789"
READY_SECONDS = 120
MEASURE_SECONDS = 400


@contextlib.contextmanager
def a_server(command: list[str], environment: dict[str, str], folder: Path, ready_url: str) -> Iterator[None]:
    """A server in a process group of its own, until it is no longer needed."""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, env=os.environ | environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(ready_url, timeout=2):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{command[0]} did not start:\n{(folder / 'log').read_text()}")
            time.sleep(0.2)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def svc(folder: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    # Its limit for one experiment is beyond what one process of Python logs in a minute; it stays.
    settings = {"SVC_PORT": str(port), "SVC_DATA_DIR": str(folder / "data"), "SVC_BOOTSTRAP_API_KEY": KEY}
    with a_server(["npm", "start"], settings, folder, f"{url}/readyz"):
        client = {"SVC_API_KEY": KEY, "SVC_SPOOL_DIRECTORY": str(folder / "spool"), "BENCH_FOLDER": str(folder)}
        yield sys.executable, url, client


@contextlib.contextmanager
def mlflow(folder: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    programs, url, database = _programs("mlflow"), f"http://127.0.0.1:{(port := _free_port())}", folder / "mlflow.db"
    command = [str(programs / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(port)]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    # Without it each point is a request; with it the client sends batches of what it has gathered.
    batched = {"MLFLOW_ASYNC_LOGGING_BUFFERING_SECONDS": "1"}
    # Its workers are started by name.
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    with a_server([*command, "--backend-store-uri", f"sqlite:///{database}"], quiet | path, folder, f"{url}/health"):
        yield str(programs / "python"), url, quiet | batched | {"BENCH_DATABASE": str(database)}


@contextlib.contextmanager
def trackio(folder: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    programs, url = _programs("trackio"), f"http://127.0.0.1:{(port := _free_port())}"
    common = {"TRACKIO_WRITE_TOKEN": KEY, "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    server = common | {"TRACKIO_DIR": str(folder / "server"), "GRADIO_SERVER_PORT": str(port)}
    launch = "import trackio; trackio.show(open_browser=False, block_thread=True, share=False)"
    with a_server([str(programs / "python"), "-c", launch], server, folder, f"{url}/version"):
        client = {"TRACKIO_DIR": str(folder / "client"), "BENCH_DATABASE": str(folder / "server" / "bench.db")}
        yield str(programs / "python"), url, common | client


@contextlib.contextmanager
def comet_ml(folder: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Another client of the same service."""
    with svc(folder) as (_python, url, _environment):
        client = {"COMET_URL_OVERRIDE": f"{url}/clientlib/", "COMET_API_KEY": KEY, "COMET_ERROR_TRACKING_ENABLE": "0"}
        yield str(_programs("comet_ml") / "python"), url, client | {"BENCH_FOLDER": str(folder)}


@contextlib.contextmanager
def wandb(folder: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    quiet = {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false", "WANDB_DIR": str(folder)}
    yield str(_programs("wandb") / "python"), "", quiet


@contextlib.contextmanager
def swanlab(folder: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    yield str(_programs("swanlab") / "python"), "", {"BENCH_FOLDER": str(folder)}


SIDES = {"svc": svc, "wandb": wandb, "mlflow": mlflow, "trackio": trackio, "swanlab": swanlab, "comet_ml": comet_ml}


def install() -> None:
    """Puts the peers where bench/ of the service has them too."""
    for name, version in PINNED.items():
        if (PEERS / name / "installed").is_file():
            continue
        subprocess.run([sys.executable, "-m", "venv", str(PEERS / name)], check=True)
        python = str(PEERS / name / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{name}=={version}", "numpy"], check=True)
        (PEERS / name / "installed").write_text(version)


def measure(what: str, name: str, python: str, url: str, environment: dict[str, str]) -> dict[str, float]:
    done = subprocess.run(
        [python, str(FOLDER / "measure.py"), what, name, url],
        env=os.environ | environment | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=MEASURE_SECONDS,
    )
    if done.returncode != 0:
        raise SystemExit(f"{name}, {what}: {done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="svc_ml beside other clients, in turns and in one run.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--install", action="store_true", help="install the peers from PyPI first (venvs in bench/.peers)"
    )
    parser.add_argument("--only", nargs="+", choices=sorted(SIDES), default=list(SIDES))
    given = parser.parse_args()
    if given.install:
        install()
    found: dict[str, dict[str, list[float]]] = {name: {} for name in given.only}
    folder = Path(tempfile.mkdtemp(prefix="svc-client-bench-"))
    try:
        with contextlib.ExitStack() as stack:
            sides = {}
            for name in given.only:
                (folder / name).mkdir()
                sides[name] = stack.enter_context(SIDES[name](folder / name))
            for number in range(given.rounds):
                for what in MEASURES:
                    for name, (python, url, environment) in sides.items():
                        for figure, value in measure(what, name, python, url, environment).items():
                            found[name].setdefault(figure, []).append(value)
                print(f"round {number + 1} of {given.rounds} done", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print_table(found)


def print_table(found: dict[str, dict[str, list[float]]]) -> None:
    """Medians of the rounds, with the least and the greatest."""
    figures = list(next(iter(found.values())))
    names = list(found)
    print("| median (least - greatest) | " + " | ".join(names) + " |")
    print("| --- |" + " ---: |" * len(names))
    for figure in figures:
        cells = [found[name][figure] for name in names]
        print(
            f"| {figure} | "
            + " | ".join(f"{_show(statistics.median(it))} ({_show(min(it))} - {_show(max(it))})" for it in cells)
            + " |"
        )


def _show(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def _programs(name: str) -> Path:
    if not (PEERS / name / "installed").is_file():
        raise SystemExit(
            f"{name} is absent: run this with --install (PyPI, Python 3.10 or newer), or leave it out by --only."
        )
    return PEERS / name / "bin"


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    main()
