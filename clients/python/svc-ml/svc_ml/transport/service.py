"""Calls to the service over HTTP, and what their failures mean for what to do next."""

from __future__ import annotations

# Sockets import this codec when they first look a host up: were a thread at it while the process is forked, the
# child would never be able to.
import encodings.idna  # noqa: F401
import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import urllib3

from svc_ml.fault import SvcError

_API = "/api/rest/v2"
_AUTHORIZATION = frozenset({401})
# Codes of the service's errors, see the table at <url>/reference.
EXPERIMENT_EXISTS = 90999
EXPERIMENT_UNKNOWN = 90211
EXPERIMENT_READ_ONLY = 90210
ARTIFACT_UNKNOWN = 624522
ARTIFACT_VERSION_EXISTS = 90399
REGISTRY_MODEL_UNKNOWN = 42008
_BARRED = frozenset({EXPERIMENT_UNKNOWN, EXPERIMENT_READ_ONLY, 90212, 90219, 7000023})


class Rejected(SvcError):
    """The service will never take this request; the message is its own."""

    def __init__(self, message: str, status: int, code: int) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    @property
    def is_barred(self) -> bool:
        """True when not this request but the key, the workspace or the experiment is wrong: nothing else would pass."""
        return self.status in _AUTHORIZATION or self.code in _BARRED


class Unavailable(SvcError):
    """The same request may pass later."""

    def __init__(self, message: str, retry_after_seconds: float | None, was_answered: bool) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        """What the service asked for; None when it asked for nothing."""
        self.was_answered = was_answered
        """True when the service said that it kept nothing; false when that is not known."""


class Service:
    """One address with one key. Its methods may be called from any thread, and after a fork."""

    def __init__(self, url: str, api_key: str) -> None:
        self.url = url
        self.api_key = api_key
        self._pool: urllib3.PoolManager | None = None
        self._pool_pid = 0

    def get(self, path: str, query: Mapping[str, Any], timeout: float = 30) -> dict[str, Any]:
        return self._call("GET", path, query, None, {}, timeout)

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
        return self._call(
            method, path, query or {}, body, {"content-type": "application/json", **(headers or {})}, timeout
        )

    def _call(
        self, method: str, path: str, query: Mapping[str, Any], body: Any, headers: Mapping[str, str], timeout: float
    ) -> dict[str, Any]:
        given = {name: _to_text(value) for name, value in query.items() if value is not None}
        address = self.url + _API + path + ("?" + urlencode(given) if given else "")
        try:
            answer = self._open_pool().request(
                method,
                address,
                body=body,
                headers={"authorization": self.api_key, **headers},
                timeout=urllib3.Timeout(connect=min(timeout, 10), read=timeout),
                retries=False,
                redirect=False,
            )
        except urllib3.exceptions.LocationValueError as error:
            raise Rejected(f"{self.url} is no address of a service: {error}. Set SVC_URL.", 0, 0) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unavailable(f"{self.url} cannot be reached ({_name(error)})", None, False) from error
        return self._read_answer(answer)

    def _read_answer(self, answer: urllib3.BaseHTTPResponse) -> dict[str, Any]:
        try:
            told = json.loads(answer.data)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            told = {"msg": f"{self.url} answered {answer.status} with something other than JSON"}
            if answer.status == 200:
                raise Unavailable(f"{told['msg']}: is that the address of svc?", None, False)
        if answer.status == 200 and told.get("code", 200) == 200:
            return told
        message = str(told.get("msg"))
        if answer.status in (408, 425, 429) or answer.status >= 500:
            raise Unavailable(message, _retry_after(answer.headers), answer.status in (429, 503))
        raise Rejected(message, answer.status, int(told.get("sdk_error_code") or 0))

    def _open_pool(self) -> urllib3.PoolManager:
        # A connection must not be shared with the parent of a fork: two requests would mix on it.
        if self._pool is None or self._pool_pid != os.getpid():
            self._pool = urllib3.PoolManager(maxsize=4, num_pools=4)
            self._pool_pid = os.getpid()
        return self._pool


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds; a date is not used by svc, and a proxy that sends one is asked again after a wait of our own."""
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None


def _to_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _name(error: BaseException) -> str:
    reason = getattr(error, "reason", None)
    return type(reason if isinstance(reason, BaseException) else error).__name__
