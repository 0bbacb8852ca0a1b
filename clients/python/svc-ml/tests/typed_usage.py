"""
What type checkers say of calls: this file is checked, and never run. What passes here passes for people, and each `ignore` is of
an error that they get: one that is not needed fails the check.
"""

# mypy: warn-unused-ignores

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Optional

from svc_ml import Api, ExistingExperiment, Experiment, OfflineExperiment, init
from svc_ml.read import Asset, LoggedRun, Records, Table

with Experiment(project_name="digits", resume="allow", log_code=False) as online:
    kept: Experiment = online
    key: str = online.get_key()
    link: Optional[str] = online.url
    scope: AbstractContextManager[Experiment] = online.train()
    asset: Optional[dict[str, str]] = online.log_image([[0.5]], name="dot.png", step=1)
    online.log_metric("loss", 0.25, step=1)
    online.log_metric("loss", 0.25, at=1)  # type: ignore[call-arg]
    online.log_histogram([1.0], bins="many")  # type: ignore[arg-type]
    online.log_nothing()  # type: ignore[attr-defined]

with OfflineExperiment(offline_directory="runs") as offline, offline.validate() as validating:
    same: OfflineExperiment = validating

with init(project="digits", config={"rate": 0.01}) as begun:
    begun.log({"loss": 0.5}, step=1)
    begun.log({"loss": 0.5}, at=1)  # type: ignore[call-arg]

ExistingExperiment(experiment_key=key, worker="worker-1", spool_directory="spool")
Experiment(resume="sometimes")  # type: ignore[arg-type]
Experiment(project="digits")  # type: ignore[call-arg]
Experiment(worker="worker-1")  # type: ignore[call-arg]
OfflineExperiment(url="http://127.0.0.1:8080")  # type: ignore[call-arg]
ExistingExperiment(project_name="digits")  # type: ignore[call-arg]

api = Api(workspace="default", retry_seconds=1)
runs: Table = api.runs("digits", [("params.rate", ">", 0.01), ("tags", "=", "first")], ["name", "metrics.loss"])
rows: list[dict[str, object]] = runs.rows()
run: LoggedRun = api.run(key)
points: Table = run.metrics("loss", context="train")
files: Records[Asset] = run.assets("image")
sizes: list[int] = [it.size for it in files]
path: Path = run.download(files[0], "images")
folder: Path = api.artifact("weights", "1.0.0").download("weights", skip_remote=True)
lines: Table = run.output(last=20)
run.output(last="20")  # type: ignore[arg-type]
run.download(path)  # type: ignore[arg-type]
found: Table = api.runs("digits", "params.rate > 0.01")
api.runs("digits", 0.01)  # type: ignore[arg-type]
api.runs("digits", limit="all")  # type: ignore[arg-type]
run.metric("loss")  # type: ignore[attr-defined]
