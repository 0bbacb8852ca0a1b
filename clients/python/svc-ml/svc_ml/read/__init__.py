"""Reads back what was logged: runs, points, output, files; as rows, pandas or polars."""

from svc_ml.read.api import Api
from svc_ml.read.artifacts import ArtifactVersion
from svc_ml.read.assets import Asset
from svc_ml.read.errors import NotFound, Refused, Unavailable
from svc_ml.read.logged_run import LoggedRun
from svc_ml.read.records import Records
from svc_ml.read.table import Table

__all__ = ["Api", "ArtifactVersion", "Asset", "LoggedRun", "NotFound", "Records", "Refused", "Table", "Unavailable"]
