"""What tells whether data is the same."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from svc_ml.fault import SvcError
from svc_ml.form.array import is_array, to_array

_DIGITS = 32
_PIECE_BYTES = 1024 * 1024


def to_digest(data: Any) -> str:
    """The first 32 hexadecimal digits of a SHA-256 of the content."""
    digest = hashlib.sha256()
    if isinstance(data, Path):
        _add_path(digest, data.expanduser())
    elif isinstance(data, (bytes, bytearray, memoryview)):
        digest.update(data)
    elif hasattr(data, "write_csv") and hasattr(data, "dtypes"):
        digest.update(repr(list(zip(data.columns, data.dtypes))).encode())
        digest.update(data.write_csv().encode())
    elif hasattr(data, "iloc") and hasattr(data, "columns"):
        digest.update(repr([(str(name), str(kind)) for name, kind in data.dtypes.items()]).encode())
        digest.update(data.to_csv().encode())
    elif is_array(data) and to_array(data).dtype.kind != "O":
        array = to_array(data)
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    else:
        digest.update(str(data).encode())
    return digest.hexdigest()[:_DIGITS]


def _add_path(digest: Any, path: Path) -> None:
    if path.is_dir():
        for file in sorted(it for it in path.rglob("*") if it.is_file()):
            name = file.relative_to(path).as_posix().encode()
            digest.update(b"%d %s %d " % (len(name), name, file.stat().st_size))
            _add_path(digest, file)
        return
    try:
        with path.open("rb") as file_read:
            while piece := file_read.read(_PIECE_BYTES):
                digest.update(piece)
    except OSError as error:
        raise SvcError(f"{path} cannot be read: {error.strerror}.") from None
