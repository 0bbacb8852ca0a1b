"""Reads over HTTP, repeated while the service is away for a moment."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

import urllib3

from svc_ml.read.errors import explain
from svc_ml.transport.service import Rejected, Service, Unavailable

_API = "/api/rest/v2"
_CONNECT_SECONDS = 10.0
_READ_SECONDS = 60.0
"""How long nothing may arrive."""
_FIRST_WAIT_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 5.0

T = TypeVar("T")


class Connection:
    """
    One address with one key. Its methods may be called from any thread, and after a fork. They raise NotFound, Refused,
    Unavailable, and Rejected for a request that is wrong otherwise.

    retry_seconds: how long after its first failure a read is tried again.
    """

    def __init__(self, url: str, api_key: str, retry_seconds: float) -> None:
        self.url = url
        self._api_key = api_key
        self._retry_seconds = retry_seconds
        self._service = Service(url, api_key)
        self._pool: urllib3.PoolManager | None = None
        self._pool_pid = 0

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        return self.attempt(lambda: self._service.get(path, query, timeout=_READ_SECONDS))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Of reads whose question is too long for an address."""
        data = json.dumps(body).encode()
        return self.attempt(lambda: self._service.send("POST", path, data, timeout=_READ_SECONDS))

    def attempt(self, read: Callable[[], T]) -> T:
        """What `read` returns, which may raise Unavailable some times before."""
        deadline = 0.0
        wait = _FIRST_WAIT_SECONDS
        while True:
            try:
                return read()
            except Rejected as error:
                raise explain(error, self.url) from None
            except Unavailable as error:
                deadline = deadline or time.monotonic() + self._retry_seconds
                asked = error.retry_after_seconds
                pause = wait * random.uniform(0.5, 1) if asked is None else asked
                if time.monotonic() + pause > deadline:
                    raise self._give_up(error) from error
                time.sleep(pause)
                wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def open(
        self, path: str, query: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> urllib3.BaseHTTPResponse:
        """
        An answer whose body is read as it arrives; `attempt` repeats this with what reads it. Close it.

        Raises Rejected, Unavailable.
        """
        given = {name: str(value) for name, value in query.items() if value is not None}
        try:
            answer = self._open_pool().request(
                "GET",
                f"{self.url}{_API}{path}?{urlencode(given)}",
                headers={"authorization": self._api_key, **(headers or {})},
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS),
                preload_content=False,
                retries=False,
                redirect=False,
            )
            if answer.status in (200, 206):
                return answer
            data = answer.read()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self.lost(error) from error
        try:
            told = json.loads(data)
            message, code = str(told["msg"]), int(told.get("sdk_error_code") or 0)
        except (ValueError, LookupError, TypeError, AttributeError):
            message, code = f"{self.url} answered {answer.status} with something other than JSON", 0
        if answer.status in (408, 425, 429) or answer.status >= 500:
            raise Unavailable(message, _retry_after(answer.headers), True)
        raise Rejected(message, answer.status, code)

    def lost(self, error: BaseException) -> Unavailable:
        """The connection was lost; the same read may pass later."""
        return Unavailable(f"{self.url} cannot be reached ({type(error).__name__})", None, False)

    def _give_up(self, error: Unavailable) -> Unavailable:
        advice = (
            "Try again later." if error.was_answered else "Is the service running there? SVC_URL, or url, says where."
        )
        message = str(error) if self.url in str(error) else f"{self.url}: {error}"
        return Unavailable(
            f"{message.rstrip('.')}. It was tried for {self._retry_seconds:g} s. {advice}",
            error.retry_after_seconds,
            error.was_answered,
        )

    def _open_pool(self) -> urllib3.PoolManager:
        # A connection must not be shared with the parent of a fork: two requests would mix on it.
        if self._pool is None or self._pool_pid != os.getpid():
            self._pool = urllib3.PoolManager(maxsize=4, num_pools=4)
            self._pool_pid = os.getpid()
        return self._pool


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None
