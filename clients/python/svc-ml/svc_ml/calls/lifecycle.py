"""What people ask of a run as a whole: what it is, what went wrong, and its end."""

from __future__ import annotations

import html
from types import TracebackType
from typing import Any, TypeVar

from svc_ml import process_end
from svc_ml.fault import logger
from svc_ml.run import Run

Kind = TypeVar("Kind", bound="RunCalls")


class RunCalls:
    _run: Run

    # What is known of it

    @property
    def id(self) -> str:
        return self._run.key

    @property
    def url(self) -> str | None:
        """Where people look at it; None until the service was reached."""
        return self._run.link

    @property
    def disabled(self) -> bool:
        return self._run.channel is None

    @property
    def stop_requested(self) -> bool:
        """True once somebody has asked the service to stop this experiment; the training loop decides what to make of it."""
        return self._run.stop_requested

    def get_key(self) -> str:
        return self._run.key

    def get_name(self) -> str | None:
        return self._run.name

    def get_logging_errors(self, clear: bool = True) -> list[dict[str, Any]]:
        """
        What went wrong in the background, the last 1,000. Each has `message`, `logger_name`, `timestamp` (ISO), and where
        known `data_affected` and `traceback`.
        """
        return self._run.faults.read(clear)

    def has_logging_error(self) -> bool:
        return len(self._run.faults) > 0

    def display(self, width: str = "100%", height: str = "800px") -> None:
        """Shows the experiment's page in a notebook; elsewhere prints its link."""
        try:
            from IPython import get_ipython  # type: ignore[import-not-found, unused-ignore]
            from IPython.display import IFrame, display  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            get_ipython = None
        if get_ipython is not None and get_ipython() is not None and self._run.link:
            display(IFrame(_to_embed(self._run.link), width=width, height=height))
        else:
            logger.info("Experiment %s: %s", self._run.key, self._run.link or "not at the service yet")

    def _repr_html_(self) -> str:
        if not self._run.link:
            return f"<code>{html.escape(self._run.key)}</code>"
        address = html.escape(self._run.link, quote=True)
        return f'<a href="{address}" target="_blank" rel="noopener">{html.escape(self._run.name or self._run.key)}</a>'

    # The end

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until the service has everything, `timeout` seconds at most. False when it has not."""
        channel = self._run.channel
        if channel is None:
            return True
        try:
            return channel.flush(self._run.settings.end_seconds if timeout is None else timeout)
        except Exception as error:
            self._run.faults.add(f"flush: {error!r}", error=error)
            return False

    def write(self) -> None:
        """Brings everything to disk, where it outlives this process."""
        if self._run.channel is not None:
            self._run.channel.write()

    def end(self, timeout: float | None = None) -> None:
        """
        Sends what is left and closes the experiment; what is logged afterwards is ignored. Waits `timeout` seconds at most (the
        setting `end_seconds`), less when the service does nothing. What could not be sent stays on disk, and is sent by
        `svc-ml sync` or when the next experiment starts.
        """
        self._run.end(timeout)

    def __enter__(self: Kind) -> Kind:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not process_end.is_good_exit(error):
            self._run.note_crash(process_end.describe(error))
        self.end()


def _to_embed(link: str) -> str:
    """The address of an experiment's page for a frame: the service lets no page frame any other."""
    base, workspace, project, key = link.rsplit("/", 3)
    return f"{base}/-/embed/{workspace}/{project}/{key}"
