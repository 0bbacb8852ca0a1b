"""Settings: an argument goes first, then the environment, then `./.svc.config`, then `~/.svc.config`."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from svc_ml.client.setting import DEFAULT_URL, MIB, first_given, to_number, to_url
from svc_ml.fault import SvcError

FILE_NAME = ".svc.config"
_SECTION = "svc"


@dataclass(frozen=True)
class Settings:
    """
    Each field is read from the variable `SVC_<FIELD>` and from the line `<field> = ...` under `[svc]` of a file.
    Units: bytes and seconds.
    """

    url: str = DEFAULT_URL
    api_key: str | None = None
    workspace: str | None = None
    project_name: str | None = None
    experiment_key: str | None = None
    offline_directory: str = "svc-offline"
    spool_directory: str = "~/.svc/spool"
    queue_bytes: int = 64 * MIB
    spool_bytes: int = 4096 * MIB
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
        sources = [("argument " + field.name, given.get(field.name)), (variable, environment.get(variable))]
        sources.extend((f"{field.name} in {path}", values_of.get(field.name)) for path, values_of in files)
        found = first_given(sources)
        if found is None:
            continue
        where, value = found
        try:
            values[field.name] = _convert(field.name, field.default, value)
        except ValueError:
            expected = "http://host:port or https://..." if field.name == "url" else "a number of 0 or more"
            wrong.append(f"{where}: expected {expected}, got {value!r}")
    if wrong:
        raise SvcError("; ".join(wrong))
    return Settings(**values, named=frozenset(values))


def _convert(name: str, default: Any, value: Any) -> Any:
    if not isinstance(default, (int, float)):
        text = str(value).strip()
        return to_url(text) if name == "url" else text
    return type(default)(to_number(value))


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
