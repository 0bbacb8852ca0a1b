"""How long to wait before the next attempt."""

from __future__ import annotations

import random

_FIRST_SECONDS = 0.25
_LONGEST_SECONDS = 30.0
_SPREAD_SECONDS = 1.0


class Backoff:
    """Twice as long each time, up to half a minute, of which up to a half is chance: or else all come back at once."""

    def __init__(self) -> None:
        self._attempts = 0

    def next(self, retry_after_seconds: float | None = None) -> float:
        """Seconds. What the service asks for is the least."""
        longest = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(self._attempts, 20))
        self._attempts += 1
        jittered = longest * random.uniform(0.5, 1.0)
        if retry_after_seconds is None:
            return jittered
        return retry_after_seconds + min(jittered, _SPREAD_SECONDS)

    def reset(self) -> None:
        self._attempts = 0
