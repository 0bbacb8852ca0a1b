"""The trackers that are compared, each as its documentation has a user call it. Run with the Python that has the package."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import struct
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parents[3]


class Tracker(Protocol):
    """One run with one tracker. `log` is what a training loop calls; both forms return as soon as the client lets them."""

    def log_one(self, name: str, value: float, step: int) -> None: ...
    def log_many(self, values: Mapping[str, float], step: int) -> None: ...
    def flush(self) -> None: ...
    def send_all(self) -> None:
        """Whatever the client offers so that all is on its way: a flush, or else the end."""
        ...

    def end(self) -> None: ...
    def count(self) -> int:
        """How many points of `loss` a reader sees now."""
        ...

    def disk_bytes(self) -> int:
        """What holds the points, on disk."""
        ...


class Svc:
    def __init__(self, url: str) -> None:
        from svc_ml import Experiment

        self._experiment = Experiment(url=url, display_summary=False)

    def log_one(self, name: str, value: float, step: int) -> None:
        self._experiment.log_metric(name, value, step=step)

    def log_many(self, values: Mapping[str, float], step: int) -> None:
        self._experiment.log_metrics(values, step=step)

    def flush(self) -> None:
        self._experiment.flush()

    send_all = flush

    def end(self) -> None:
        self._experiment.end()

    def count(self) -> int:
        """Over HTTP, every point of it: the service has no other way to be asked from outside."""
        service: Any = self._experiment._run.service
        answer = service.get(
            "/experiment/metrics/get-metric", {"experimentKey": self._experiment.id, "metricName": "loss"}
        )
        return len(answer["metrics"])

    def disk_bytes(self) -> int:
        return _svc_bytes()


class MLflow:
    """The asynchronous form, which MLflow recommends for loops; its server's SQLite is asked how far it is."""

    def __init__(self, url: str) -> None:
        import mlflow

        self._mlflow = mlflow
        mlflow.set_tracking_uri(url)
        self._run = mlflow.start_run()

    def log_one(self, name: str, value: float, step: int) -> None:
        self._mlflow.log_metric(name, value, step=step, synchronous=False)

    def log_many(self, values: Mapping[str, float], step: int) -> None:
        self._mlflow.log_metrics(dict(values), step=step, synchronous=False)

    def flush(self) -> None:
        self._mlflow.flush_async_logging()

    send_all = flush

    def end(self) -> None:
        self._mlflow.flush_async_logging()
        self._mlflow.end_run()

    def count(self) -> int:
        query = "SELECT count(*) FROM metrics WHERE run_uuid = ? AND key = 'loss'"
        return _ask(os.environ["BENCH_DATABASE"], query, self._run.info.run_id)

    def disk_bytes(self) -> int:
        return _sqlite_bytes()


class Trackio:
    """All metrics of a call are one row of JSON in its server's SQLite, which is asked how far it is."""

    def __init__(self, url: str) -> None:
        import trackio

        self._trackio = trackio
        self._has_ended = False
        self._name = f"run-{os.getpid()}"
        trackio.init("bench", name=self._name, server_url=url, embed=False)

    def log_one(self, name: str, value: float, step: int) -> None:
        self._trackio.log({name: value}, step=step)

    def log_many(self, values: Mapping[str, float], step: int) -> None:
        self._trackio.log(dict(values), step=step)

    def flush(self) -> None:
        """It has no call for that: what is left is sent by `finish`."""

    def send_all(self) -> None:
        self._trackio.finish()
        self._has_ended = True

    def end(self) -> None:
        if not self._has_ended:
            self.send_all()

    def count(self) -> int:
        query = "SELECT count(*) FROM metrics WHERE run_name = ?"
        return _ask(os.environ["BENCH_DATABASE"], query, self._name)

    def disk_bytes(self) -> int:
        return _sqlite_bytes()


class CometMl:
    """`comet_ml` with all that it logs automatically, as a user has it; the service is asked how far it is."""

    def __init__(self, url: str) -> None:
        import comet_ml

        self._url = url
        self._experiment = comet_ml.Experiment(workspace="default", project_name="bench", display_summary_level=0)

    def log_one(self, name: str, value: float, step: int) -> None:
        self._experiment.log_metric(name, value, step=step)

    def log_many(self, values: Mapping[str, float], step: int) -> None:
        self._experiment.log_metrics(dict(values), step=step)

    def flush(self) -> None:
        self._experiment.flush()

    send_all = flush

    def end(self) -> None:
        self._experiment.end()

    def count(self) -> int:
        query = f"experimentKey={self._experiment.id}&metricName=loss"
        address = f"{self._url}/api/rest/v2/experiment/metrics/get-metric?{query}"
        asked = urllib.request.Request(address, headers={"Authorization": os.environ["COMET_API_KEY"]})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return len(json.load(answer)["metrics"])

    def disk_bytes(self) -> int:
        return _svc_bytes()


class Wandb:
    """Offline: without a server, what is logged is readable when the file of the run is whole, which is at its end."""

    def __init__(self, _url: str) -> None:
        import wandb

        self._run: Any = wandb.init(project="bench", mode="offline")
        self._has_ended = False

    def log_one(self, name: str, value: float, step: int) -> None:
        self._run.log({name: value}, step=step)

    def log_many(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def flush(self) -> None:
        """It has no call for that."""

    def send_all(self) -> None:
        self._run.finish()
        self._has_ended = True

    def end(self) -> None:
        if not self._has_ended:
            self.send_all()

    def count(self) -> int:
        from wandb.proto.wandb_internal_pb2 import Record

        kinds = [
            Record.FromString(it).WhichOneof("record_type") for it in _leveldb_records(self._run.settings.sync_file)
        ]
        return kinds.count("history")

    def disk_bytes(self) -> int:
        return _bytes_of(Path(self._run.settings.sync_file))


class SwanLab:
    """In its local mode: a folder of the run, with a file of lines for each metric."""

    def __init__(self, _url: str) -> None:
        import swanlab

        self._swanlab = swanlab
        self._folder = Path(tempfile.mkdtemp(prefix="swanlog-", dir=os.environ["BENCH_FOLDER"]))
        swanlab.init(project="bench", mode="local", logdir=str(self._folder))
        self._has_ended = False

    def log_one(self, name: str, value: float, step: int) -> None:
        self._swanlab.log({name: value}, step=step)

    def log_many(self, values: Mapping[str, float], step: int) -> None:
        self._swanlab.log(dict(values), step=step)

    def flush(self) -> None:
        """It has no call for that."""

    def send_all(self) -> None:
        self._swanlab.finish()
        self._has_ended = True

    def end(self) -> None:
        if not self._has_ended:
            self.send_all()

    def count(self) -> int:
        return sum(it.read_bytes().count(b"\n") for it in self._folder.glob("run-*/logs/*/*.log"))

    def disk_bytes(self) -> int:
        # The second, binary copy beside the lines is what it would send.
        return sum(
            _bytes_of(it) for it in [*self._folder.glob("run-*/logs/*/*"), *self._folder.glob("run-*/*.swanlab")]
        )


def _leveldb_records(path: str) -> Iterator[bytes]:
    """The records of a log as LevelDB writes it, after the seven bytes that W&B puts before it."""
    data, at, record = Path(path).read_bytes(), 7, b""
    block, header = 32_768, struct.Struct("<IHB")
    while at + header.size <= len(data):
        left = block - at % block
        if left < header.size:
            at += left
            continue
        _, length, kind = header.unpack_from(data, at)
        at += header.size
        record += data[at : at + length]
        at += length
        # Whole, or the last part of one.
        if kind in (1, 4):
            yield record
            record = b""


def _svc_bytes() -> int:
    """The tables of ClickHouse, as `svc doctor` tells them."""
    command = ["npm", "run", "--silent", "svc", "--", "doctor"]
    environment = os.environ | {"SVC_DATA_DIR": os.environ["BENCH_FOLDER"] + "/data"}
    told = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True).stdout
    found = re.search(r"; ([\d.,]+) (B|kB|MB|GB) in \d+ tables", told)
    if not found:
        raise SystemExit(f"svc doctor says nothing of tables:\n{told}")
    return int(float(found[1].replace(",", "")) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[found[2]])


def _sqlite_bytes() -> int:
    database = os.environ["BENCH_DATABASE"]
    return sum(_bytes_of(Path(it)) for it in (database, f"{database}-wal"))


def _bytes_of(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _ask(path: str, query: str, *given: str) -> int:
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10) as database:
            return int(database.execute(query, given).fetchone()[0])
    except sqlite3.OperationalError:
        # Not made yet, or locked for longer than that.
        return 0


TRACKERS: dict[str, type[Any]] = {
    "svc": Svc,
    "wandb": Wandb,
    "mlflow": MLflow,
    "trackio": Trackio,
    "swanlab": SwanLab,
    "comet_ml": CometMl,
}
