"""Pictures out of figures, arrays and tensors."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from typing import Any, Optional

from svc_ml.fault import SvcError
from svc_ml.form.array import to_array

_COUNTS = (1, 3, 4)
"""Channels that a picture may have: grey, RGB, RGBA."""


def to_encoded(data: Any, format: str, channels: Optional[str] = None) -> bytes:
    """The bytes of a file of `format` out of a figure of matplotlib, a Pillow image, an array or a tensor."""
    buffer = io.BytesIO()
    if hasattr(data, "savefig"):
        data.savefig(buffer, format=format)
    else:
        (data if hasattr(data, "save") else to_picture(data, channels)).save(buffer, format=format)
    return buffer.getvalue()


def to_picture(data: Any, channels: Optional[str] = None) -> Any:
    """
    A Pillow image out of an array or tensor of shape (height, width), (height, width, C) or (C, height, width), C being 1, 3 or 4.

    channels: `first` or `last`; None tells by the shape, and takes them to be last where both would do.
    """
    try:
        from PIL import Image
    except ImportError:
        raise SvcError("images out of arrays need Pillow: pip install pillow.") from None
    pixels = to_array(data)
    if channels not in (None, "first", "last"):
        raise SvcError(f"image_channels is {channels!r}: expected 'first' or 'last'.")
    if pixels.ndim == 3:
        is_first = channels == "first" or (
            channels is None and pixels.shape[2] not in _COUNTS and pixels.shape[0] in _COUNTS
        )
        pixels = pixels.transpose(1, 2, 0) if is_first else pixels
        pixels = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
    if pixels.ndim != 2 and not (pixels.ndim == 3 and pixels.shape[2] in _COUNTS):
        raise SvcError(
            f"the image has the shape {to_array(data).shape}, expected (height, width), (height, width, 1, 3 or 4) or "
            "(1, 3 or 4, height, width)."
        )
    if pixels.dtype.kind in "fb":
        # A number that is none is drawn black.
        pixels = (pixels.astype("float64") * 255).clip(0, 255)
        pixels[pixels != pixels] = 0
    return Image.fromarray(pixels.clip(0, 255).astype("uint8"))


def to_animation(frames: Any, frames_per_second: float, channels: Optional[str] = None) -> bytes:
    """A GIF out of pictures, or out of an array or tensor with one more dimension than that of a picture."""
    if not frames_per_second > 0:
        raise SvcError(f"fps is {frames_per_second}: expected frames per second, more than 0.")
    pictures = [it if hasattr(it, "save") else to_picture(it, channels) for it in frames]
    if not pictures:
        raise SvcError("the video has no frames.")
    buffer = io.BytesIO()
    milliseconds = max(10, round(1000 / frames_per_second))
    pictures[0].save(
        buffer, format="GIF", save_all=True, append_images=pictures[1:], duration=milliseconds, loop=0, optimize=False
    )
    return buffer.getvalue()


def to_sprite(pictures: Iterable[Any], size: Optional[Sequence[int]] = None) -> tuple[bytes, tuple[int, int], int]:
    """
    One PNG with all pictures, row by row in a square grid, as TensorBoard's projector takes them; the width and height of each
    picture in it, and how many there are.

    size: width and height; None is that of the first.
    """
    from PIL import Image

    found = [it if hasattr(it, "save") else to_picture(it) for it in pictures]
    if not found:
        raise SvcError("image_data has no images.")
    width, height = (int(size[0]), int(size[1])) if size is not None else found[0].size
    columns = math.ceil(math.sqrt(len(found)))
    sprite = Image.new("RGB", (columns * width, columns * height))
    for index, it in enumerate(found):
        sprite.paste(it.convert("RGB").resize((width, height)), (index % columns * width, index // columns * height))
    return to_encoded(sprite, "png"), (width, height), len(found)
