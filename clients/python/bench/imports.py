"""
How fast scalars come out of event files of TensorBoard: `svc-ml import` into a running service (SVC_URL, SVC_API_KEY), beside the
import of trackio and the converter of SwanLab, as far as they are installed (both with tensorboard, trackio with tbparse). Those get
fewer, and write to this disk only; the converter of SwanLab would ask for a key of its cloud even so, which is left out.

    python clients/python/bench/imports.py [--points 10000000] [--points-of-others 200000]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tensorboardX.record_writer import RecordWriter

RUNS = 10
TAGS = ["loss", "accuracy", *(f"layer{number}/grad" for number in range(8))]
TRACKIO = "import sys, trackio; trackio.import_tf_events(sys.argv[1], 'speed')"
SWANLAB = """
import sys, swanlab
from swanlab.converter import TFBConverter
swanlab.login = lambda **_: True
TFBConverter(project="speed", mode="offline", logdir=sys.argv[2]).run(sys.argv[1])
"""


def varint(number: int) -> bytes:
    data = b""
    while number > 127:
        data += bytes([number & 127 | 128])
        number >>= 7
    return data + bytes([number])


def event(tag: bytes, step: int, seconds: float, value: float) -> bytes:
    inner = b"\n" + varint(len(tag)) + tag + b"\x15" + struct.pack("<f", value)
    summary = b"\n" + varint(len(inner)) + inner
    return b"\t" + struct.pack("<d", seconds) + b"\x10" + varint(step) + b"*" + varint(len(summary)) + summary


def write_files(folder: Path, points: int, runs: int) -> None:
    """Frames as tensorboardX writes them. The runs differ in their first event only: writing each anew takes minutes."""
    steps = points // runs // len(TAGS)
    body = folder / "body"
    writer = RecordWriter(str(body))
    for step in range(steps):
        for at, tag in enumerate(TAGS):
            writer.write(event(tag.encode(), step, 1.7e9 + step / 2 + at / 1000, random.random()))
    writer.close()
    for run in range(runs):
        path = folder / "logs" / f"run{run}" / f"events.out.tfevents.1700000000.host.{run}"
        path.parent.mkdir(parents=True)
        first = RecordWriter(str(path))
        first.write(b"\t" + struct.pack("<d", 1.7e9 - 1 - run) + b"\x1a\rbrain.Event:2")
        first.close()
        with path.open("ab") as file:
            file.write(body.read_bytes())


def measure(name: str, points: int, command: list[str], folder: Path) -> None:
    environment = os.environ | {"TRACKIO_DIR": str(folder / "trackio")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    told = f"{points / seconds:,.0f} a second, {cpu:.1f} s of CPU" if done.returncode == 0 else done.stderr[-500:]
    print(f"{name}: {points:,} scalars in {seconds:.1f} s: {told}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--points-of-others", type=int, default=200_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        ours, others = Path(scratch) / "ours", Path(scratch) / "others"
        for folder, points, runs in ((ours, given.points, RUNS), (others, given.points_of_others, 1)):
            folder.mkdir()
            write_files(folder, points, runs)
        command = [sys.executable, "-m", "svc_ml.command", "import", "tensorboard", str(ours / "logs")]
        measure("svc-ml", given.points, [*command, "--project", "speed"], ours)
        for name, script in (("trackio", TRACKIO), ("swanlab", SWANLAB)):
            if importlib.util.find_spec(name):
                arguments = [str(others / "logs"), str(others / "swanlab")]
                measure(name, given.points_of_others, [sys.executable, "-c", script, *arguments], others)


if __name__ == "__main__":
    main()
