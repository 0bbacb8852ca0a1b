"""
Short notes from workers to the driver, in the key-value store that every Ray cluster has. A cluster that does not take them
costs nothing but the note.
"""

from __future__ import annotations

_PREFIX = "svc_ml"


def put(experiment_key: str, kind: str, name: str, text: str) -> None:
    """Keeps a note of this kind and name until the cluster ends."""
    try:
        from ray.experimental.internal_kv import _internal_kv_initialized, _internal_kv_put

        if _internal_kv_initialized():
            _internal_kv_put(_path(experiment_key, kind) + name.encode(), text.encode())
    except Exception:
        return


def read(experiment_key: str, kind: str) -> dict[str, str]:
    """The notes of a kind, by name."""
    try:
        from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_initialized, _internal_kv_list

        if not _internal_kv_initialized():
            return {}
        path = _path(experiment_key, kind)
        return {it[len(path) :].decode(): (_internal_kv_get(it) or b"").decode() for it in _internal_kv_list(path)}
    except Exception:
        return {}


def _path(experiment_key: str, kind: str) -> bytes:
    return f"{_PREFIX}/{experiment_key}/{kind}/".encode()
