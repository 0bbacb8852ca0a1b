"""The calls of the service that events are logged with."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError

from .client.service import Rejected, Service, Unavailable, describe_error, to_object

_GZIP_BYTES_MIN = 8 * 1024
_UNAUTHORIZED = 401


class Transport(Service):
    """Its methods may be called from any thread, and after a fork."""

    def __init__(self, url: str, api_key: str, request_seconds: float) -> None:
        super().__init__(url, api_key)
        self._request_seconds = request_seconds

    def post_json(self, path: str, body: bytes) -> dict[str, Any]:
        """Raises Unavailable, Rejected."""
        headers = {}
        if len(body) >= _GZIP_BYTES_MIN:
            headers["content-encoding"] = "gzip"
            # The quickest level: it takes most of what there is to take, and this runs beside a model.
            body = gzip.compress(body, 1)
        return self.send("POST", path, body, headers=headers, timeout=self._request_seconds)

    def post_file(
        self, path: str, query: dict[str, str], name: str, content: bytes, idempotency_key: str
    ) -> Iterator[dict[str, Any]]:
        """The lines of the answer, as they come. Raises Unavailable, Rejected, also while they are read."""
        body, content_type = urllib3.encode_multipart_formdata({"file": (name, content, "text/csv")})
        headers = {"content-type": content_type, "idempotency-key": idempotency_key}
        timeout = self._request_seconds
        answer = self.request("POST", path, body, query=query, headers=headers, timeout=timeout, is_streamed=True)
        try:
            if answer.status != 200:
                self.read(answer)
            rest = b""
            for chunk in answer.stream(64 * 1024):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield self._to_line(line)
        except (HTTPError, OSError) as error:
            raise Unavailable(f"the connection to {self.url} broke: {describe_error(error)}") from error
        finally:
            answer.drain_conn()
            answer.release_conn()

    def read(self, answer: urllib3.BaseHTTPResponse) -> dict[str, Any]:
        try:
            return super().read(answer)
        except Rejected as error:
            if error.status != _UNAUTHORIZED:
                raise
            message = f"{error} Pass the key as api_key, or in SVC_API_KEY ({self.url})."
            raise Rejected(message, error.status, error.code) from None

    def _to_line(self, line: bytes) -> dict[str, Any]:
        told = to_object(line)
        if told is None:
            raise Unavailable(f"{self.url} answered something that is not the service's: is SVC_URL right?")
        return told
