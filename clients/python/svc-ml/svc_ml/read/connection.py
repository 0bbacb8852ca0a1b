"""Reads over HTTP, repeated while the service is away for a moment."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import urllib3

from svc_ml.client.service import describe_error
from svc_ml.read.errors import explain
from svc_ml.transport.service import Rejected, Service, Unavailable

_READ_SECONDS = 60.0
"""How long nothing may arrive."""
_BYTES_AT_ONCE = 1024 * 1024
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
        self._retry_seconds = retry_seconds
        self._service = Service(url, api_key)

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        return self.attempt(lambda: self._service.get(path, query, timeout=_READ_SECONDS))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Of reads whose question is too long for an address."""
        data = json.dumps(body).encode()
        return self.attempt(lambda: self._service.send("POST", path, data, timeout=_READ_SECONDS))

    def attempt(self, read: Callable[[], T]) -> T:
        """What `read` returns, which may raise Unavailable some times before."""
        failed_at = 0.0
        wait = _FIRST_WAIT_SECONDS
        while True:
            try:
                return read()
            except Rejected as error:
                raise explain(error, self.url) from None
            except Unavailable as error:
                now = time.monotonic()
                failed_at = failed_at or now
                asked = error.retry_after_seconds
                pause = wait * random.uniform(0.5, 1) if asked is None else asked
                if error.is_fault or now + pause > failed_at + self._retry_seconds:
                    raise self._give_up(error, now - failed_at) from error
                time.sleep(pause)
                wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def open(
        self, path: str, query: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> urllib3.BaseHTTPResponse:
        """
        An answer whose body is read as it arrives; `attempt` repeats this with what reads it. Close it.

        Raises Rejected, Unavailable.
        """
        answer = self._service.request(
            "GET", path, query=query, headers=headers, timeout=_READ_SECONDS, is_streamed=True
        )
        if answer.status not in (200, 206):
            try:
                # It is no success, so this raises what it is.
                self._service.read(answer)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise self.lost(error) from error
        return answer

    def blocks(self, answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        """The content of an answer as it arrives. Raises Unavailable when the connection is lost before its end."""
        try:
            yield from answer.stream(_BYTES_AT_ONCE, decode_content=True)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self.lost(error) from error

    def lost(self, error: BaseException) -> Unavailable:
        """The connection was lost; the same read may pass later."""
        return Unavailable(f"the connection to {self.url} broke: {describe_error(error)}")

    def _give_up(self, error: Unavailable, tried_seconds: float) -> Unavailable:
        if error.is_fault:
            advice = "This is a fault of the service: its log says more."
        elif error.was_answered:
            advice = "Try again later, or give Api more retry_seconds."
        else:
            advice = "Is the service running there? SVC_URL, or url, says where."
        message = str(error) if self.url in str(error) else f"{self.url}: {error}"
        return Unavailable(
            f"{message.rstrip('.')}. It was tried for {tried_seconds:.1f} s. {advice}",
            error.status,
            error.retry_after_seconds,
        )
