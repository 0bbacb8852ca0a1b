"""How long to wait before the next attempt."""

from __future__ import annotations

import random

_FIRST_SECONDS = 0.25
_LONGEST_SECONDS = 30.0


class Backoff:
    """Twice as long each time, up to half a minute, of which up to a half is chance: or else all come back at once."""

    def __init__(self) -> None:
        self.attempts = 0

    def next(self, retry_after: float | None = None) -> float:
        """Seconds. What the service asks for is the least."""
        longest = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(self.attempts, 20))
        self.attempts += 1
        jittered = longest * random.uniform(0.5, 1.0)
        if retry_after is None:
            return jittered
        return retry_after + min(jittered, 1.0)

    def reset(self) -> None:
        self.attempts = 0
