"""Where a run takes place: the machine, the Python, the packages, the commit."""

from __future__ import annotations

import getpass
import importlib.metadata
import os
import platform
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from svc_ml import gpu

_GIT_SECONDS = 10
_PATCH_BYTES_MAX = 10 * 1024 * 1024


def read_system_details(with_host: bool = True) -> dict[str, Any]:
    """The body of `system-details`, without packages."""
    details: dict[str, Any] = {
        "pythonVersion": platform.python_version(),
        "pythonVersionVerbose": sys.version,
        "pid": os.getpid(),
        "osType": platform.system(),
        "os": platform.platform(),
        "command": sys.orig_argv if hasattr(sys, "orig_argv") else [sys.executable, *sys.argv],
        "executable": sys.executable,
        "gpuStaticInfoList": gpu.read_static(),
        "logAdditionalSystemInfoList": [
            {"key": "processor", "value": platform.processor() or platform.machine()},
            {"key": "cpu_count", "value": str(psutil.cpu_count())},
            {"key": "total_ram", "value": str(psutil.virtual_memory().total)},
        ],
    }
    if with_host:
        addresses = _read_addresses()
        details |= {"hostname": socket.gethostname(), "networkInterfaceIps": addresses}
        details |= {"user": _read_user()} if _read_user() else {}
        details |= {"ip": addresses[0]} if addresses else {}
    return details


def read_packages() -> list[tuple[str, str]]:
    """Name and version of each installed package, by name."""
    found = {}
    for it in importlib.metadata.distributions():
        name = it.metadata["Name"]
        if name:
            found[str(name)] = it.version
    return sorted(found.items(), key=lambda it: it[0].lower())


def read_git(folder: Path) -> dict[str, str] | None:
    """The body of `git/metadata`; None when the folder belongs to no repository, or there is no git."""
    root = _git(folder, "rev-parse", "--show-toplevel")
    parent = _git(folder, "rev-parse", "HEAD")
    if not root or not parent:
        return None
    return {
        "root": root.strip(),
        "parent": parent.strip(),
        "branch": (_git(folder, "rev-parse", "--abbrev-ref", "HEAD") or "").strip(),
        "origin": _without_password((_git(folder, "remote", "get-url", "origin") or "").strip()),
        "user": (_git(folder, "config", "user.name") or "").strip(),
    }


def read_git_patch(folder: Path) -> str | None:
    """What is changed and not committed; None when nothing is, or too much."""
    patch = _git(folder, "diff", "HEAD")
    return patch if patch and len(patch) <= _PATCH_BYTES_MAX else None


def _git(folder: Path, *arguments: str) -> str | None:
    # Asks nobody for a password, and takes no lock that a git of the user's might wait for.
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_SECONDS,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _without_password(origin: str) -> str:
    scheme, separator, rest = origin.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if separator and scheme in ("http", "https") else origin


def _read_addresses() -> list[str]:
    families = (socket.AF_INET, socket.AF_INET6)
    found = [it.address for each in psutil.net_if_addrs().values() for it in each if it.family in families]
    return sorted(found, key=lambda it: it.startswith(("127.", "::1", "fe80")))


def _read_user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that has no name.
        return None
