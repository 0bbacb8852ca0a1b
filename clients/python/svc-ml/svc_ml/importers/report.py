"""What an import has taken, what it has not, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_SHOWN_MAX = 50


@dataclass
class Report:
    """Counts by what they count; sums of the reports of all runs."""

    taken: dict[str, int] = field(default_factory=dict)
    left_out: dict[tuple[str, str], int] = field(default_factory=dict)
    """By what it is and why."""
    failed: list[str] = field(default_factory=list)
    """Runs that could not be read or sent, and what the service refused."""
    links: list[str] = field(default_factory=list)

    def take(self, what: str, count: int = 1) -> None:
        self.taken[what] = self.taken.get(what, 0) + count

    def leave(self, what: str, why: str, count: int = 1) -> None:
        self.left_out[what, why] = self.left_out.get((what, why), 0) + count

    def add(self, other: Report) -> None:
        for what, count in other.taken.items():
            self.take(what, count)
        for (what, why), count in other.left_out.items():
            self.leave(what, why, count)
        self.failed.extend(other.failed)
        self.links.extend(other.links)

    def to_json(self) -> dict[str, Any]:
        return {
            "taken": self.taken,
            "leftOut": [{"what": what, "why": why, "count": count} for (what, why), count in self.left_out.items()],
            "failed": self.failed,
            "links": self.links,
        }

    def to_text(self, is_dry: bool, seconds: float | None = None) -> str:
        """seconds: how long it took."""
        # Runs first: the others are in them.
        taken = sorted(self.taken.items(), key=lambda it: it[0] != "runs")
        counted = ", ".join(_count(count, what) for what, count in taken) or "nothing"
        took = "" if seconds is None else f" in {seconds:,.1f} s"
        lines = [f"{'Would import' if is_dry else 'Imported'} {counted}{took}."]
        for (what, why), count in list(self.left_out.items())[:_SHOWN_MAX]:
            lines.append(f"Left out: {_count(count, what)}: {why}")
        if len(self.left_out) > _SHOWN_MAX:
            lines.append(f"Left out: {len(self.left_out) - _SHOWN_MAX} further reasons; --json names all.")
        lines.extend(f"Failed: {it}" for it in self.failed[:_SHOWN_MAX])
        return "\n".join(lines)


def _count(count: int, what: str) -> str:
    """what: a plural, such as `versions of artifacts`."""
    first, space, rest = what.partition(" ")
    return f"{count:,} {first.removesuffix('s') if count == 1 and first != 'details' else first}{space}{rest}"
