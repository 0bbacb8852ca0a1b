"""Calls to the service over HTTP, and what their failures mean for what to do next."""

from __future__ import annotations

# Sockets import this codec when they first look a host up: were a thread at it while the process is forked, the
# child would never be able to.
import encodings.idna  # noqa: F401
import json
import os
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, LocationValueError
from urllib3.util import Retry

from .fault import PACKAGE, SvcError

_CONNECT_SECONDS = 10.0
_RETRY_AFTER_MAX = 3_600.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_UNAUTHORIZED = 401
# The key, the workspace or the experiment: see the table at <url>/reference.
_BARRED = frozenset({90210, 90211, 90212, 90219, 7000023})


class Rejected(SvcError):
    """The service will never take this request; the message is its own."""

    def __init__(self, message: str, status: int, code: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    @property
    def is_barred(self) -> bool:
        """True when not this request but the key, the workspace or the experiment is wrong: nothing else would pass."""
        return self.status == _UNAUTHORIZED or self.code in _BARRED


class Unavailable(SvcError):
    """The same request may pass later."""

    def __init__(self, message: str, status: int | None = None, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        """What was answered; None when nothing was."""
        self.retry_after_seconds = retry_after_seconds
        """What the service asked for; None when it asked for nothing."""

    @property
    def is_throttled(self) -> bool:
        return self.status == 429

    @property
    def is_fault(self) -> bool:
        """True for a fault of the service's own, which may come again with the same request for ever."""
        return self.status == 500

    @property
    def was_answered(self) -> bool:
        """True when the service said that it kept nothing; false when that is not known."""
        return self.status in (429, 503)


class Service:
    """
    One address with one key. Its methods may be called from any thread, and after a fork.

    root: what stands between the address and the paths of calls.
    """

    def __init__(self, url: str, api_key: str, root: str = "") -> None:
        self.url = url
        self.api_key = api_key
        self._root = root
        # Here, not when it is needed: meanwhile others may change the environment, which must not be read then.
        self._proxy = _find_proxy(url)
        self._pool: urllib3.PoolManager | None = None
        self._pool_pid = 0

    def get(self, path: str, query: Mapping[str, Any], timeout: float = 30) -> dict[str, Any]:
        """Raises Rejected, Unavailable."""
        return self.read(self.request("GET", path, query=query, timeout=timeout))

    def send(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30,
    ) -> dict[str, Any]:
        """
        body: bytes of JSON, or a file opened for reading when `headers` has another content-type.

        Raises Rejected, Unavailable.
        """
        named = {"content-type": "application/json", **(headers or {})}
        return self.read(self.request(method, path, body, query=query, headers=named, timeout=timeout))

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30,
        is_streamed: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        """The answer, whatever it says; with `is_streamed` its content is still to be read. Raises Rejected, Unavailable."""
        given = {name: _to_text(value) for name, value in (query or {}).items() if value is not None}
        try:
            return self._open_pool().request(
                method,
                self.url + self._root + path + ("?" + urlencode(given) if given else ""),
                body=body,
                headers={"authorization": self.api_key, "user-agent": f"{PACKAGE}-python", **(headers or {})},
                timeout=urllib3.Timeout(connect=min(timeout, _CONNECT_SECONDS), read=timeout),
                retries=False,
                redirect=False,
                preload_content=not is_streamed,
            )
        except LocationValueError as error:
            raise Rejected(f"{self.url} is no address of a service: {error}. Set SVC_URL.", 0) from None
        except (HTTPError, OSError) as error:
            raise Unavailable(f"the service cannot be reached at {self.url}: {describe_error(error)}") from error

    def read(self, answer: urllib3.BaseHTTPResponse) -> dict[str, Any]:
        """What an answer says. Raises Rejected, Unavailable."""
        told = to_object(answer.data)
        status = answer.status
        if status == 200:
            if told is None:
                raise Unavailable(
                    f"{self.url} answered 200 with something that is not the service's: is SVC_URL right?"
                )
            code = told.get("code", 200)
            if code == 200:
                return told
            status = code if isinstance(code, int) else 500
        message = str((told or {}).get("msg") or f"HTTP {status}")
        if status in (408, 425, 429) or status >= 500:
            text = message if told else f"the service answers {status}"
            raise Unavailable(text, status, _retry_after(answer.headers.get("retry-after")))
        if (status in (404, 405) and not (told and "msg" in told)) or 300 <= status < 400:
            # A proxy whose service is being replaced answers so, too: nothing is lost by waiting.
            raise Unavailable(f"{self.url} answers {status}: is SVC_URL the address of the service?", status)
        raise Rejected(message, status, int((told or {}).get("sdk_error_code") or 0))

    def _open_pool(self) -> urllib3.PoolManager:
        # A connection must not be shared with the parent of a fork: two requests would mix on it.
        if self._pool is None or self._pool_pid != os.getpid():
            self._pool = (
                urllib3.ProxyManager(self._proxy, num_pools=4, maxsize=4)
                if self._proxy
                else urllib3.PoolManager(num_pools=4, maxsize=4)
            )
            self._pool_pid = os.getpid()
        return self._pool


def to_object(content: bytes) -> dict[str, Any] | None:
    """A JSON object; None for anything else."""
    try:
        told = json.loads(content)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def describe_error(error: BaseException) -> str:
    """Without the objects that urllib3 writes into its messages."""
    cause = error.__cause__ or error.__context__
    text = str(cause if isinstance(cause, OSError) else error)
    return text.split(": ", 1)[1] if text.startswith("<") and ": " in text else text


def _find_proxy(url: str) -> str | None:
    parts = urlsplit(url)
    host = parts.hostname or ""
    # What a proxy would find at these is its own machine.
    if host in _LOOPBACK or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _retry_after(given: str | None) -> float | None:
    """Seconds, or a date of HTTP."""
    if not given:
        return None
    try:
        return min(float(Retry().parse_retry_after(given)), _RETRY_AFTER_MAX)
    except HTTPError:
        return None


def _to_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
