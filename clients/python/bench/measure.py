"""One measurement of one tracker, in a process of its own: `measure.py calls|stream|disk|training NAME URL`. Prints JSON."""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

import numpy as np
from trackers import TRACKERS, Tracker

CALLS = 2_000
CALLS_PAUSE_EVERY = 100
"""A pause of 5 ms after so many calls: a loop that does nothing but log is no training."""
STREAM_POINTS = 20_000
DISK_POINTS = 50_000
TRAINING_STEPS = 300
TRAINING_METRICS = 10
READABLE_SECONDS_MAX = 180
DISK_REST_SECONDS = 15


def measure_calls(tracker: Tracker) -> dict[str, float]:
    """Microseconds of one call that logs one point, while the client does in the background what it does."""
    clock = time.perf_counter_ns
    taken = []
    for step in range(CALLS):
        value = 1 / (step + 1)
        began = clock()
        tracker.log_one("loss", value, step)
        taken.append(clock() - began)
        if step % CALLS_PAUSE_EVERY == 0:
            time.sleep(0.005)
    median, high = np.percentile(taken, [50, 99]) / 1_000
    return {"median_us": median, "p99_us": high, "most_us": max(taken) / 1_000}


def measure_stream(tracker: Tracker) -> dict[str, float]:
    """Points a second from one process, as fast as the calls return, from the first call until a reader sees them all."""
    began = time.perf_counter()
    for step in range(STREAM_POINTS):
        tracker.log_one("loss", 1 / (step + 1), step)
    returned = time.perf_counter()
    tracker.send_all()
    while (seen := tracker.count()) < STREAM_POINTS:
        if time.perf_counter() - began > READABLE_SECONDS_MAX:
            raise SystemExit(f"only {seen} of {STREAM_POINTS} points can be read after {READABLE_SECONDS_MAX} s")
        time.sleep(0.02)
    done = time.perf_counter()
    if seen != STREAM_POINTS:
        raise SystemExit(f"{seen} points can be read, but {STREAM_POINTS} were logged")
    return {"calls_per_s": STREAM_POINTS / (returned - began), "readable_per_s": STREAM_POINTS / (done - began)}


def measure_disk(tracker: Tracker) -> dict[str, float]:
    """Bytes on disk for each point of a noisy loss, once all are readable."""
    noise = np.random.default_rng(1).normal(size=DISK_POINTS)
    before = tracker.disk_bytes()
    for step, it in enumerate(noise.tolist()):
        tracker.log_one("loss", 2 * 0.9999**step + it / 20, step)
    tracker.send_all()
    began = time.perf_counter()
    while tracker.count() < DISK_POINTS and time.perf_counter() - began < READABLE_SECONDS_MAX:
        time.sleep(0.5)
    # Until what was written is written together.
    time.sleep(DISK_REST_SECONDS)
    return {"disk_bytes_a_point": (tracker.disk_bytes() - before) / DISK_POINTS}


def measure_training(tracker: Tracker) -> dict[str, float]:
    """How much longer a training takes when each step logs ten metrics: in turns with and without, in one process."""
    taken: dict[bool, list[float]] = {True: [], False: []}
    _train(None, 0)
    for turn in range(6):
        is_on = turn % 2 == 1
        gc.collect()
        began = time.perf_counter()
        _train(tracker if is_on else None, turn)
        taken[is_on].append(time.perf_counter() - began)
        if is_on:
            # What the client still has to send would slow the turn without.
            tracker.flush()
    on, off = np.median(taken[True]), np.median(taken[False])
    return {"slowdown_percent": 100 * (on / off - 1), "step_ms": 1_000 * off / TRAINING_STEPS}


def _train(tracker: Tracker | None, turn: int) -> None:
    """Softmax regression by gradient descent on random data: steps of a millisecond or two on one core."""
    random = np.random.default_rng(1)
    data, classes = random.normal(size=(256, 400)), random.integers(0, 10, 256)
    weights = np.zeros((400, 10))
    for step in range(TRAINING_STEPS):
        scores = data @ weights
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        loss = -np.log(odds[np.arange(256), classes]).mean()
        odds[np.arange(256), classes] -= 1
        weights -= 0.1 * data.T @ odds / 256
        if tracker is not None:
            values = {f"metric_{it}": float(loss) + it for it in range(TRAINING_METRICS)}
            tracker.log_many(values, turn * TRAINING_STEPS + step)


def main() -> None:
    what, name, url = sys.argv[1:]
    tracker = TRACKERS[name](url)
    measures: dict[str, Any] = {
        "calls": measure_calls,
        "stream": measure_stream,
        "disk": measure_disk,
        "training": measure_training,
    }
    found = measures[what](tracker)
    tracker.end()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
