"""Of W&B's `util` what training scripts use."""

from __future__ import annotations

import secrets
import string

_LETTERS = string.ascii_lowercase + string.digits


def generate_id(length: int = 8) -> str:
    """A random id for `init(id=...)`."""
    return "".join(secrets.choice(_LETTERS) for _ in range(length))
