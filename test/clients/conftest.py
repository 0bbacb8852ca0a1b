"""The service for clients that others made: the same as for ours (`clients/python/conftest.py`)."""

from __future__ import annotations

import importlib.util
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

os.environ["COMET_DISABLE_AUTO_LOGGING"] = "1"

import comet_ml

_path = Path(__file__).resolve().parents[2] / "clients" / "python" / "conftest.py"
_spec = importlib.util.spec_from_file_location("svc_service", _path)
assert _spec and _spec.loader
_module = importlib.util.module_from_spec(_spec)
sys.modules["svc_service"] = _module
_spec.loader.exec_module(_module)

service = _module.service
own_service = _module.own_service
Service = _module.Service


@pytest.fixture(scope="module")
def api(service: Service) -> Iterator[comet_ml.API]:
    patch = pytest.MonkeyPatch()
    # The two variables that the page for users of such clients names.
    patch.setenv("COMET_URL_OVERRIDE", service.url + "/clientlib/")
    patch.setenv("COMET_API_KEY", service.api_key)
    yield comet_ml.API(cache=False)
    patch.undo()


@pytest.fixture
def project(api: comet_ml.API, service: Service) -> str:
    name = f"project-{uuid.uuid4().hex[:8]}"
    api.create_project(service.workspace, name, "made by a test", public=False)
    return name


@pytest.fixture
def new_experiment(service: Service, project: str) -> Callable[[], comet_ml.APIExperiment]:
    def make() -> comet_ml.APIExperiment:
        made = comet_ml.APIExperiment(api_key=service.api_key, workspace=service.workspace, project_name=project)
        # Its own cache would answer what was there before the write.
        made._api.use_cache(False)
        return made

    return make


@pytest.fixture
def experiment(new_experiment: Callable[[], comet_ml.APIExperiment]) -> comet_ml.APIExperiment:
    return new_experiment()
