"""Settings: an argument goes first, then the environment, then `./.svc.config`, then `~/.svc.config`."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from svc_ml.fault import SvcError

FILE_NAME = ".svc.config"
_SECTION = "svc"
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Settings:
    """
    Each field is read from the variable `SVC_<FIELD>` and from the line `<field> = ...` under `[svc]` of a file.
    Units: bytes and seconds.
    """

    url: str = "http://127.0.0.1:8080"
    api_key: str | None = None
    workspace: str | None = None
    project_name: str | None = None
    experiment_key: str | None = None
    offline_directory: str = "svc-offline"
    spool_directory: str = "~/.svc/spool"
    queue_bytes: int = 64 * _MIB
    spool_bytes: int = 4096 * _MIB
    block_seconds: float = 1.0
    init_seconds: float = 10.0
    end_seconds: float = 600.0
    stall_seconds: float = 30.0
    # The names of those that were given, perhaps with the value that is the default as well.
    named: frozenset[str] = frozenset()


def read_settings(given: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Settings:
    """
    Raises SvcError that names every setting that cannot be read, and where it stands.

    given: arguments by field; None means not given.
    """
    files = _read_files()
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for field in fields(Settings):
        if field.name == "named":
            continue
        variable = "SVC_" + field.name.upper()
        sources = [("argument " + field.name, given.get(field.name)), (variable, environment.get(variable) or None)]
        sources.extend((f"{field.name} in {path}", values_of.get(field.name) or None) for path, values_of in files)
        for where, value in sources:
            if value is None:
                continue
            try:
                values[field.name] = _convert(field.default, value)
            except ValueError:
                wrong.append(f"{where}: expected a number of 0 or more, got {value!r}")
            break
    url = values.get("url", "")
    if url and not url.startswith(("http://", "https://")):
        wrong.append(f"url: expected http://host:port or https://..., got {url!r}")
    if wrong:
        raise SvcError("; ".join(wrong))
    settings = Settings(**values, named=frozenset(values))
    return replace(settings, url=settings.url.rstrip("/"))


def _convert(default: Any, value: Any) -> Any:
    if not isinstance(default, (int, float)):
        return str(value).strip()
    number = type(default)(value)
    if not number >= 0:
        raise ValueError
    return number


def _read_files() -> list[tuple[Path, dict[str, str]]]:
    found = []
    for path in (Path.cwd() / FILE_NAME, Path.home() / FILE_NAME):
        # Keys and passwords may hold any character: no interpolation.
        parser = configparser.ConfigParser(interpolation=None)
        try:
            if not parser.read(path, encoding="utf-8"):
                continue
        except (configparser.Error, UnicodeDecodeError) as error:
            raise SvcError(
                f"{path} cannot be read: {error}. It has the form of an INI file with [{_SECTION}]."
            ) from None
        if parser.has_section(_SECTION):
            found.append((path, dict(parser[_SECTION])))
    return found
