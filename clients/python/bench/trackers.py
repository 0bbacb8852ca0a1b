"""The trackers that are compared, each as its documentation has a user call it. Run with the Python that has the package."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from typing import Any, Protocol


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
        service: Any = self._experiment._service
        answer = service.get(
            "/experiment/metrics/get-metric", {"experimentKey": self._experiment.id, "metricName": "loss"}
        )
        return len(answer["metrics"])


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


def _ask(path: str, query: str, *given: str) -> int:
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10) as database:
            return int(database.execute(query, given).fetchone()[0])
    except sqlite3.OperationalError:
        # Not made yet, or locked for longer than that.
        return 0


TRACKERS: dict[str, type[Any]] = {"svc": Svc, "mlflow": MLflow, "trackio": Trackio}
