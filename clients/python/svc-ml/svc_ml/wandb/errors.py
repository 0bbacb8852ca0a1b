"""The errors that scripts written for W&B catch."""

from __future__ import annotations

from svc_ml.fault import SvcError


class Error(SvcError):
    """Something was used in a way that cannot work."""


class UsageError(Error):
    pass


class CommError(Error):
    """Never raised: what cannot be sent is kept on disk."""
