"""The service for clients that others made: the same as for ours (`clients/python/conftest.py`)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_path = Path(__file__).resolve().parents[2] / "clients" / "python" / "conftest.py"
_spec = importlib.util.spec_from_file_location("svc_service", _path)
assert _spec and _spec.loader
_module = importlib.util.module_from_spec(_spec)
sys.modules["svc_service"] = _module
_spec.loader.exec_module(_module)

service = _module.service
