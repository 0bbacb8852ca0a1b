"""What `pip` gets: wheel and sdist are built, looked into, installed into a venv of their own, and used from there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from conftest import ROOT, Service, eventually

PYTHON = ROOT / "clients" / "python"
LICENSE = (ROOT / "LICENSE").read_text()

LOGS_OFFLINE = """
import importlib.metadata
import svc_ml

assert svc_ml.__version__ == importlib.metadata.version("svc-ml")
with svc_ml.OfflineExperiment(project_name="packages", offline_directory="offline") as experiment:
    experiment.log_metric("loss", 0.5, step=1)
assert experiment.get_logging_errors() == []
"""

LOGS_AN_EVENT = """
import importlib.metadata
import svc_mpm

assert svc_mpm.__version__ == importlib.metadata.version("svc-mpm")
mpm = svc_mpm.SvcMPM(model_name="packages", model_version="1.0.0")
mpm.log_event("event", {"amount": 12.5}, output_features={"value": "ok"})
mpm.end()
assert mpm.get_logging_errors() == []
"""


def run(*command: object, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        [str(it) for it in command], cwd=cwd, env=os.environ | variables, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(name: str, folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist of a package. The wheel is built from the sdist, which so has all that is needed for it."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, PYTHON / name, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return wheel, sdist


def install(wheel: Path, folder: Path) -> Path:
    """The folder of the commands of a new venv that holds the wheel, and what it depends on."""
    venv.create(folder, symlinks=True)
    # The pip of these tests: to unpack one into each venv takes seconds.
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    run(*pip, "install", "--quiet", "--disable-pip-version-check", wheel, cwd=folder)
    return folder / "bin"


def source_files(package: Path) -> set[str]:
    """The files of a package, by their path beside it; those that it shares, too, to which it has a link."""
    found = [Path(folder, name) for folder, _, names in os.walk(package, followlinks=True) for name in names]
    return {str(it.relative_to(package.parent)) for it in found if "__pycache__" not in it.parts}


def expect_contents(name: str, wheel: Path, sdist: Path) -> None:
    package = name.replace("-", "_")
    with zipfile.ZipFile(wheel) as archive:
        held = {it: archive.read(it).decode() for it in archive.namelist()}
    code = {it for it in held if ".dist-info/" not in it}
    about = f"{wheel.name.split('-py3')[0]}.dist-info"
    assert code == source_files(PYTHON / name / package), "no tests, and nothing is missing"
    assert {f"{package}/py.typed", f"{package}/client/spool/log.py"} <= code
    assert held[f"{about}/licenses/LICENSE"] == LICENSE
    assert re.search(r"^License-Expression: Apache-2.0$", held[f"{about}/METADATA"], re.MULTILINE)
    with tarfile.open(sdist) as packed:
        assert all(it.isfile() for it in packed.getmembers()), "no links: their targets are elsewhere"
        inside = {it.name.split("/", 1)[1] for it in packed.getmembers()}
    assert code | {"LICENSE", "CHANGELOG.md", "README.md", "pyproject.toml"} <= inside


def test_svc_ml_is_installed_from_what_was_built_and_logs_a_metric(tmp_path: Path) -> None:
    wheel, sdist = build("svc-ml", tmp_path)
    expect_contents("svc-ml", wheel, sdist)
    commands = install(wheel, tmp_path / "venv")
    run(commands / "python", "-I", "-c", LOGS_OFFLINE, cwd=tmp_path)
    assert "sync" in run(commands / "svc-ml", "--help", cwd=tmp_path, PYTHONPATH="")
    assert run(commands / "svc-ml", "list", "offline", "--json", cwd=tmp_path, PYTHONPATH="").count("\n") == 1


def test_svc_mpm_is_installed_from_what_was_built_and_logs_an_event(service: Service, tmp_path: Path) -> None:
    wheel, sdist = build("svc-mpm", tmp_path)
    expect_contents("svc-mpm", wheel, sdist)
    commands = install(wheel, tmp_path / "venv")
    variables = {"SVC_URL": service.url, "SVC_API_KEY": service.api_key}
    run(commands / "python", "-I", "-c", LOGS_AN_EVENT, cwd=tmp_path, **variables)
    eventually(lambda: service.get("/mpm/v2/event?workspaceName=default&modelName=packages&predictionId=event"))


@pytest.mark.parametrize("package", ["svc_ml", "svc_mpm"])
def test_the_version_is_known_in_a_source_tree_that_was_not_installed(package: str, tmp_path: Path) -> None:
    name = package.replace("_", "-")
    script = f"import {package}; print({package}.__version__, {package}.__file__)"
    version, path = run(sys.executable, "-c", script, cwd=tmp_path, PYTHONPATH=str(PYTHON / name)).split()
    assert Path(path) == PYTHON / name / package / "__init__.py"
    assert f"## [{version}]" in (PYTHON / name / "CHANGELOG.md").read_text()
    assert (PYTHON / name / "LICENSE").read_text() == LICENSE
