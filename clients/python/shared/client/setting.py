"""One setting: where it was found, and whether it can be read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

DEFAULT_URL = "http://127.0.0.1:8080"
MIB = 1024 * 1024


def first_given(sources: Iterable[tuple[str, Any]]) -> tuple[str, Any] | None:
    """The first of several places, by what it is called in messages, that says something; an empty text says nothing."""
    return next(((where, value) for where, value in sources if value is not None and value != ""), None)


def to_number(value: Any, least: float = 0) -> float:
    """Raises ValueError for what is no number, not finite, or less."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError from None
    if not least <= number < float("inf"):
        raise ValueError
    return number


def to_url(value: str) -> str:
    """The address of a service, without a slash at its end. Raises ValueError."""
    parts = urlsplit(value)
    # A port that is none raises here.
    _ = parts.port
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError
    return value.rstrip("/")
