"""NVIDIA's GPUs, when there are any and `nvidia-ml-py` is installed; otherwise none."""

from __future__ import annotations

from typing import Any


def _open() -> Any:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def read_static() -> list[dict[str, Any]]:
    """What does not change: memory in bytes, power limit in milliwatts."""
    nvml = _open()
    if nvml is None:
        return []
    found = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        found.append(
            {
                "gpuIndex": index,
                "name": _to_text(nvml.nvmlDeviceGetName(handle)),
                "uuid": _to_text(nvml.nvmlDeviceGetUUID(handle)),
                "totalMemory": int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
                "powerLimit": _read_power_limit(nvml, handle),
            }
        )
    return found


def read_usage() -> list[dict[str, int]]:
    """Memory in bytes and utilization in percent, as `gpu-metrics` takes them."""
    nvml = _open()
    if nvml is None:
        return []
    found = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        found.append(
            {
                "gpuId": index,
                "freeMemory": int(memory.free),
                "usedMemory": int(memory.used),
                "totalMemory": int(memory.total),
                "gpuUtilization": int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            }
        )
    return found


def _read_power_limit(nvml: Any, handle: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetPowerManagementLimit(handle))
    except nvml.NVMLError:
        return 0


def _to_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
