"""One request to the service, and what its answer means for what was sent."""

from __future__ import annotations

# Sockets import this codec when they first look a host up: were a thread at it while the process is forked, the
# child would never be able to.
import encodings.idna  # noqa: F401
import gzip
import json
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

_GZIP_BYTES_MIN = 8 * 1024
_CONNECT_SECONDS = 10.0
_RETRY_AFTER_MAX = 3_600.0
_ANSWER_BYTES_MAX = 16 * 1024 * 1024


class Unavailable(Exception):
    """The service could not take it, now. It may be sent again, after `retry_after` seconds where it says so."""

    def __init__(self, message: str, retry_after: float | None = None, is_fault: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.is_throttled = False
        self.is_fault = is_fault
        """True for a fault of the service's own, which may come again with the same request for ever."""


class Refused(Exception):
    """The service does not take it, and would not the next time."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Transport:
    """Calls the service with the account's key. Used by one thread at a time."""

    def __init__(self, url: str, api_key: str, request_seconds: float) -> None:
        self.url = url
        self._headers = {"Authorization": api_key, "User-Agent": "svc-mpm-python"}
        self._timeout = urllib3.Timeout(connect=min(_CONNECT_SECONDS, request_seconds), read=request_seconds)
        # Here, not in the thread that sends: meanwhile others may change the environment, which must not be read then.
        self._proxy = _find_proxy(url)
        self._pool: urllib3.PoolManager | None = None

    def get(self, path: str, seconds: float) -> dict[str, Any]:
        """Raises Unavailable, Refused."""
        return self._call("GET", path, None, {}, urllib3.Timeout(seconds))

    def post_json(self, path: str, body: bytes) -> dict[str, Any]:
        """Raises Unavailable, Refused."""
        headers = {"Content-Type": "application/json"}
        if len(body) >= _GZIP_BYTES_MIN:
            headers["Content-Encoding"] = "gzip"
            # The quickest level: it takes most of what there is to take, and this runs beside a model.
            body = gzip.compress(body, 1)
        return self._call("POST", path, body, headers, self._timeout)

    def post_file(
        self, path: str, query: dict[str, str], name: str, content: bytes, idempotency_key: str
    ) -> Iterator[dict[str, Any]]:
        """The lines of the answer, as they come. Raises Unavailable, Refused, also while they are read."""
        body, content_type = urllib3.encode_multipart_formdata({"file": (name, content, "text/csv")})
        headers = {"Content-Type": content_type, "Idempotency-Key": idempotency_key}
        answer = self._open("POST", f"{path}?{urlencode(query)}", body, headers, self._timeout)
        try:
            if answer.status != 200:
                _read_answer(self.url, answer, answer.read(_ANSWER_BYTES_MAX))
            rest = b""
            for chunk in answer.stream(64 * 1024):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield _to_object(self.url, line)
        except (HTTPError, OSError) as error:
            raise Unavailable(f"the connection to {self.url} broke: {_reason(error)}") from error
        finally:
            answer.drain_conn()
            answer.release_conn()

    def forget_connections(self) -> None:
        """For a process that was forked: connections are its parent's."""
        self._pool = None

    def _call(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], timeout: urllib3.Timeout
    ) -> dict[str, Any]:
        answer = self._open(method, path, body, headers, timeout)
        try:
            content = answer.read(_ANSWER_BYTES_MAX)
        except (HTTPError, OSError) as error:
            raise Unavailable(f"the connection to {self.url} broke: {_reason(error)}") from error
        finally:
            answer.release_conn()
        return _read_answer(self.url, answer, content)

    def _open(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], timeout: urllib3.Timeout
    ) -> urllib3.HTTPResponse:
        if self._pool is None:
            self._pool = urllib3.ProxyManager(self._proxy, maxsize=1) if self._proxy else urllib3.PoolManager(maxsize=1)
        try:
            answer = self._pool.request(
                method,
                self.url + path,
                body=body,
                headers={**self._headers, **headers},
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (HTTPError, OSError) as error:
            raise Unavailable(f"the service cannot be reached at {self.url}: {_reason(error)}") from error
        return answer  # type: ignore[return-value]


def _find_proxy(url: str) -> str | None:
    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    return None if urllib.request.proxy_bypass(parts.hostname or "") else proxy


def _read_answer(url: str, answer: urllib3.HTTPResponse, content: bytes) -> dict[str, Any]:
    status = answer.status
    if status == 200:
        body = _to_object(url, content)
        code = body.get("code", 200)
        if code == 200:
            return body
        status = code if isinstance(code, int) else 500
    message = _to_message(content) or f"HTTP {status}"
    if status == 429:
        throttled = Unavailable(message, _to_seconds(answer.headers.get("Retry-After")))
        throttled.is_throttled = True
        raise throttled
    if status in (404, 405) or 300 <= status < 400:
        # A proxy whose service is being replaced answers so, too: nothing is lost by waiting.
        raise Unavailable(f"{url} answers {status}: is SVC_URL the address of the service? ({message})")
    if status >= 500 or status == 408:
        raise Unavailable(
            f"the service answers {status}: {message}",
            _to_seconds(answer.headers.get("Retry-After")),
            is_fault=status == 500,
        )
    if status == 401:
        message += f" Pass the key as api_key, or in SVC_API_KEY ({url})."
    raise Refused(message, status)


def _to_object(url: str, content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Unavailable(f"{url} answers something that is not the service's: is SVC_URL right?")
    return body


def _to_message(content: bytes) -> str | None:
    try:
        message = json.loads(content)["msg"]
    except (ValueError, KeyError, TypeError):
        return None
    return message if isinstance(message, str) else None


def _to_seconds(retry_after: str | None) -> float | None:
    """Seconds, or a date of HTTP."""
    if not retry_after:
        return None
    try:
        return min(float(Retry().parse_retry_after(retry_after)), _RETRY_AFTER_MAX)
    except HTTPError:
        return None


def _reason(error: BaseException) -> str:
    """Without the objects that urllib3 writes into its messages."""
    cause = error.__cause__ or error.__context__
    text = str(cause if isinstance(cause, OSError) else error)
    return text.split(": ", 1)[1] if text.startswith("<") and ": " in text else text
