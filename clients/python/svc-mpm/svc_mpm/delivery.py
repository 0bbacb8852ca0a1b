"""
A batch on its way to the service.

Events carry their prediction ids, of which the service keeps the first one for ever: a batch whose answer was lost is
sent again as it was, and nothing of it is stored twice. So whatever may pass is tried again until it does; what the
service refuses is told, with the prediction ids, and given up.
"""

from __future__ import annotations

import json
from typing import Any

from .client.backoff import Backoff
from .client.fault import logger
from .client.service import Rejected, Unavailable
from .errors import ErrorLog
from .event import Item
from .queue import Source
from .settings import Settings
from .transport import Transport

_PATH = "/mpm/v2/events/batch"
_CHECK_SECONDS = 10.0
_BARRED_SECONDS = 30.0
_FAULTS_MAX = 5
"""After so many faults of the service's own in a row a batch is halved: one item of it may be what it cannot bear."""


class Delivery:
    """Sends one batch after the other. Used by one thread at a time."""

    def __init__(self, settings: Settings, transport: Transport, queue: Source, errors: ErrorLog) -> None:
        self._settings = settings
        self._transport = transport
        self._queue = queue
        self._errors = errors
        self._backoff = Backoff()
        self._batches: list[list[Item]] = []
        """What is in hand: one batch, or the parts of one that was too large."""
        self._was_sent = False
        """True when the batch in hand may have been stored, though nobody said so."""
        self._faults = 0
        self._told_away = False
        self._told_throttled = False
        self.workspace_name = settings.workspace_name
        self.accepted = 0
        self.is_barred = False
        """True when the key is refused, and what is logged waits until that is mended."""
        self.was_told_when = False
        """True when it was the service that said how long to wait."""

    def check(self) -> None:
        """
        Asks the service whether it knows the key and the workspace.

        Raises Unavailable, Rejected.
        """
        if self.workspace_name is None:
            self.find_workspace()
            return
        names = self._transport.get("/api/rest/v2/workspaces", {}, _CHECK_SECONDS).get("workspaceNames")
        if isinstance(names, list) and self.workspace_name not in names:
            known = ", ".join(map(str, names[:10])) or "none"
            raise Rejected(
                f"There is no workspace {self.workspace_name!r} that this key may use (it may use: {known}). Pass "
                "another as workspace_name, or in SVC_WORKSPACE.",
                400,
            )

    def find_workspace(self) -> str:
        """
        The workspace to write to: the account's default, where none was given.

        Raises Unavailable, Rejected.
        """
        if self.workspace_name is None:
            name = self._transport.get("/api/rest/v2/account-details", {}, _CHECK_SECONDS).get("defaultWorkspaceName")
            if not isinstance(name, str) or name == "":
                raise Rejected("The account has no default workspace: pass workspace_name, or set SVC_WORKSPACE.", 400)
            self.workspace_name = name
        return self.workspace_name

    @property
    def is_busy(self) -> bool:
        return len(self._batches) > 0

    def load(self, batch: list[Item]) -> None:
        self._batches = [batch]
        self._was_sent = self._queue.may_be_stored

    def attempt(self) -> float | None:
        """
        Sends what is in hand. Answers None once all of it is settled, else how many seconds to wait before the next.
        """
        while self._batches:
            batch = self._batches[-1]
            try:
                answer = self._transport.post_json(_PATH, self._to_body(batch))
            except Unavailable as error:
                pause = self._pause(error, batch)
                if pause is not None:
                    return pause
            except Rejected as error:
                if error.is_barred and self._queue.stays_after_end:
                    return self._bar(error)
                self._refuse(batch, error)
            else:
                self._tell_answer(batch, answer)
                self._settle()
            self._was_sent = False
        return None

    def give_up(self) -> list[Item]:
        """What is in hand and was not stored, or not with certainty."""
        left = [item for batch in self._batches for item in batch]
        for batch in self._batches:
            self._queue.settle(batch)
        self._batches = []
        return left

    def _to_body(self, batch: list[Item]) -> bytes:
        model: dict[str, Any] = {"workspaceName": self.find_workspace(), "modelName": self._settings.model_name}
        if self._settings.model_version is not None:
            model["modelVersion"] = self._settings.model_version
        prefix = json.dumps(model)[:-1].encode() + b","
        return b'{"data":[' + b",".join([prefix + it.json for it in batch]) + b"]}"

    def _settle(self) -> None:
        self._queue.settle(self._batches.pop())
        self._recover()

    def _recover(self) -> None:
        if self._told_away:
            logger.warning("the service at %s takes events in again", self._settings.url)
        self._told_away = self._told_throttled = self.is_barred = False
        self._faults = 0
        self._backoff.reset()
        self._queue.stall(False)

    def _pause(self, error: Unavailable, batch: list[Item]) -> float | None:
        self._was_sent = True
        if error.is_throttled:
            if not self._told_throttled:
                logger.warning("%s (events wait meanwhile)", error)
            self._told_throttled = True
        else:
            if not self._told_away:
                self._errors.add(f"{error}. {self._queue.room} and are sent once it answers.")
            self._told_away = True
        if error.is_fault:
            self._faults += 1
            if self._faults >= _FAULTS_MAX:
                self._faults = 0
                self._halve(batch, Rejected(str(error), 500))
                return None
        self._queue.stall(True)
        self.was_told_when = error.retry_after_seconds is not None
        return self._backoff.next(error.retry_after_seconds)

    def _bar(self, error: Rejected) -> float:
        if not self.is_barred:
            self._errors.add(f"{error} {self._queue.room} until that is mended.")
        self.is_barred = True
        self.was_told_when = False
        self._queue.stall(True)
        return _BARRED_SECONDS

    def _refuse(self, batch: list[Item], error: Rejected) -> None:
        if error.status == 413:
            self._halve(batch, error)
            return
        self._errors.add(
            f"the service refused events, which are given up: {error}",
            [it.prediction_id for it in batch],
            count=len(batch),
        )
        self._settle()

    def _halve(self, batch: list[Item], error: Rejected) -> None:
        """The first half goes first: what was logged first is sent first."""
        if len(batch) == 1:
            self._errors.add(f"the service refused an event, which is given up: {error}", [batch[0].prediction_id])
            self._settle()
            return
        middle = len(batch) // 2
        self._batches[-1:] = [batch[middle:], batch[:middle]]

    def _tell_answer(self, batch: list[Item], answer: dict[str, Any]) -> None:
        self.accepted += int(answer.get("accepted") or 0)
        rejected = int(answer.get("rejected") or 0)
        told: set[int] = set()
        for fault in answer.get("faults") or []:
            index = int(fault.get("index", -1))
            if not 0 <= index < len(batch):
                continue
            told.add(index)
            field = fault.get("field")
            message = f"{field}: {fault.get('msg')}" if field else str(fault.get("msg"))
            self._errors.add(f"the service rejected an event: {message}", [batch[index].prediction_id])
        if rejected > len(told):
            self._errors.add("the service rejected an event, and did not say why", count=rejected - len(told))
        # Of what may have been stored before, its own repetition is no news.
        if self._was_sent:
            return
        duplicates = max(int(answer.get("duplicates") or 0), int((answer.get("labels") or {}).get("duplicates") or 0))
        if duplicates:
            # Which ones they are, the service does not say.
            affected = [batch[0].prediction_id] if len(batch) == 1 else ()
            self._errors.add(
                "an event or labels with this prediction id were there already: the first one is kept",
                affected,
                duplicates,
            )
