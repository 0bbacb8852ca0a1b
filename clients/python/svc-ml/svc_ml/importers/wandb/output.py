"""What the script printed: pieces of text, as lines."""

from __future__ import annotations

from collections.abc import Iterator

from svc_ml.importers.items import Item, Lines

_LINES_AT_ONCE = 10_000


class Output:
    def __init__(self) -> None:
        self._begun: dict[bool, str] = {}
        """Lines without an end, of standard output and standard error."""
        self._lines: list[tuple[str, bool, int | None]] = []
        self._last_ms: int | None = None

    def add(self, text: str, is_error: bool, ms: int | None) -> None:
        *whole, rest = (self._begun.get(is_error, "") + text).split("\n")
        self._begun[is_error] = rest
        self._last_ms = ms
        self._lines.extend((_last_state(it), is_error, ms) for it in whole)

    def flush(self, is_end: bool) -> Iterator[Item]:
        if is_end:
            self._lines.extend((_last_state(it), at, self._last_ms) for at, it in self._begun.items() if it)
            self._begun.clear()
        while self._lines:
            part, self._lines = self._lines[:_LINES_AT_ONCE], self._lines[_LINES_AT_ONCE:]
            yield Lines(part)


def _last_state(line: str) -> str:
    """Of a line that was written again and again, as bars of progress are, what was seen in the end."""
    return next((it for it in reversed(line.split("\r")) if it), "")
