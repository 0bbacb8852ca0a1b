"""Sound out of samples."""

from __future__ import annotations

import io
import wave
from typing import Any

from svc_ml.fault import SvcError
from svc_ml.form.array import to_array

_CHANNELS_MAX = 64
_WIDTHS = {"uint8": 1, "int16": 2, "int32": 4}


def to_wav(data: Any, sample_rate: int, normalize_data: str) -> bytes:
    """
    A WAV file out of samples of shape (samples,) or (samples, channels): floats of -1 to 1, or uint8, int16 or int32.

    normalize_data: `PCM_16_BIT` makes them 16 bits wide, and scales floats down whose peak is beyond 1; `OFF` keeps integers as
        they are.
    """
    samples = to_array(data)
    if normalize_data not in ("PCM_16_BIT", "OFF"):
        raise SvcError(f"normalize_data is {normalize_data!r}: expected 'PCM_16_BIT' or 'OFF'.")
    if samples.ndim == 1:
        samples = samples[:, None]
    if samples.ndim != 2 or not 0 < samples.shape[1] <= _CHANNELS_MAX:
        raise SvcError(f"audio_data has the shape {to_array(data).shape}, expected (samples,) or (samples, channels).")
    if normalize_data == "PCM_16_BIT":
        samples = _to_16_bits(samples)
    width = _WIDTHS.get(samples.dtype.name)
    if width is None:
        raise SvcError(
            f"audio_data is of {samples.dtype.name}, expected uint8, int16 or int32; with normalize_data='PCM_16_BIT' also floats."
        )
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(width)
        file.setframerate(int(sample_rate))
        file.writeframes(samples.astype(samples.dtype.newbyteorder("<")).tobytes())
    return buffer.getvalue()


def _to_16_bits(samples: Any) -> Any:
    kind = samples.dtype.name
    if kind == "int32":
        return (samples >> 16).astype("int16")
    if kind == "uint8":
        return ((samples.astype("int16") - 128) << 8).astype("int16")
    if samples.dtype.kind != "f":
        return samples
    samples = samples.astype("float64")
    peak = float(abs(samples).max(initial=0))
    if not peak < float("inf"):
        raise SvcError("audio_data has samples that are not finite.")
    return (samples / max(1.0, peak) * 32_767).round().astype("int16")
