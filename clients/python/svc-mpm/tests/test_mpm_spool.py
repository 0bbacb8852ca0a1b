"""With a spool directory events outlive their process: whoever opens it next sends them, each once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest
from mpm_events import (
    Ledger,
    count_events,
    environment,
    expect_counts,
    in_between,
    messages,
    open_logger,
    read_event,
    unique,
)

from conftest import Service, eventually
from svc_mpm.client.spool.folder import Locked, LockedFolder
from svc_mpm.spool import ABOUT_NAME


def start(service: Service, spool: Path, model: str, script: str, **settings: str) -> subprocess.Popen[str]:
    """Runs Python text, in which `mpm` logs to the model, in a process of its own."""
    opened = "import os, sys, time\nfrom svc_mpm import SvcMPM\nmpm = SvcMPM(model_name=sys.argv[1])\n"
    return subprocess.Popen(
        [sys.executable, "-c", opened + textwrap.dedent(script), model],
        env=os.environ
        | environment(service, SVC_WORKSPACE=service.workspace, SVC_MPM_SPOOL_DIRECTORY=str(spool), **settings),
        stdout=subprocess.PIPE,
        text=True,
    )


def kill_after_lines(process: subprocess.Popen[str], count: int) -> list[str]:
    """The lines that it printed until then, and until it was dead."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(count)]
    process.kill()
    return lines + process.communicate()[0].splitlines()


def folders(spool: Path) -> list[Path]:
    return [it.parent for it in spool.glob(f"*/{ABOUT_NAME}")]


def is_free(folder: Path) -> bool:
    """True once no process holds it: one that is killed lets go of it a moment later."""
    try:
        LockedFolder.open(folder, ABOUT_NAME).close()
    except Locked:
        return False
    return True


LOGS_AND_WAITS = """
    for number in range(2_000):
        mpm.log_event(f"event {number}", {"number": number, "text": "x" * 50}, output_features={"value": number})
        if number % 2 == 0:
            mpm.log_label(f"event {number}", labels={"value": number})
    while len(mpm._queue._memory):
        time.sleep(0.01)
    print("written", flush=True)
    time.sleep(600)
"""


def test_what_a_killed_process_logged_while_the_service_was_away_is_sent_once_by_the_next(
    own_service: Service, tmp_path: Path
) -> None:
    model = unique("model")
    kill_after_lines(start(own_service, tmp_path, model, LOGS_AND_WAITS), 1)
    assert len(folders(tmp_path)) == 1
    own_service.start()
    with open_logger(own_service, unique("another"), spool_directory=tmp_path) as mpm:
        mpm.end(60)
        assert mpm.get_logging_errors() == []
    assert folders(tmp_path) == []
    expect_counts(own_service, model, events=2_000, labels=1_000)


LOGS_UNTIL_KILLED = """
    number = 0
    while True:
        mpm.log_event(f"event {number}", {"number": number})
        number += 1
        if number % 100 == 0:
            # What is printed was on disk before.
            while len(mpm._queue._memory):
                time.sleep(0.001)
            print(number, flush=True)
"""


def test_processes_killed_again_and_again_lose_nothing_that_was_written_and_repeat_nothing(
    own_service: Service, tmp_path: Path
) -> None:
    own_service.start()
    promised: dict[str, int] = {}
    for number in range(4):
        model = unique("model")
        process = start(own_service, tmp_path, model, LOGS_UNTIL_KILLED)
        if number == 2:
            own_service.kill()
        promised[model] = int(kill_after_lines(process, 20)[-1])
        if number == 2:
            own_service.start()
    # A tail that was torn off, as a power cut leaves it.
    for segment in tmp_path.glob("*/log/*.log"):
        with segment.open("ab") as file:
            file.write(b"\x00\x10\x00\x00torn")
    with open_logger(own_service, unique("another"), spool_directory=tmp_path) as mpm:
        mpm.end(60)
        told = messages(mpm)
    assert "torn off" in told and "already" not in told
    assert folders(tmp_path) == []

    def look() -> bool:
        """What is accepted is stored a moment later."""
        for model, count in promised.items():
            stored = count_events(own_service, model)["events"]
            assert stored >= count
            # So many, of which this is the last: none is left out.
            read_event(own_service, model, f"event {stored - 1}")
        return True

    eventually(look)


def test_a_batch_that_was_stored_when_its_process_was_killed_is_sent_again_and_is_no_news(
    service: Service, tmp_path: Path
) -> None:
    model = unique("model")
    killed: list[subprocess.Popen[str]] = []

    def spoil(_count: int, _body: bytes, forward: Any) -> Any:
        stored = forward()
        if killed[0].returncode is not None:
            return 200, stored
        killed[0].kill()
        killed[0].wait()
        return 0, b""

    with in_between(service, spoil) as behind:
        killed.append(start(behind, tmp_path, model, "mpm.log_event('one')\ntime.sleep(600)"))
        killed[0].communicate(timeout=60)
        with open_logger(behind, unique("another"), spool_directory=tmp_path) as mpm:
            mpm.end(60)
            assert mpm.get_logging_errors() == []
    expect_counts(service, model, events=1)


def test_what_was_sent_takes_no_room_on_disk(service: Service, tmp_path: Path) -> None:
    ledger = Ledger(service, unique("model"))
    with open_logger(service, ledger.model_name, max_batch_time=0, spool_directory=tmp_path) as mpm:
        for _ in range(2):
            ledger.log(mpm, 3_000)
            mpm.log_event(unique("large"), {"text": "x" * 60_000})
            eventually(lambda: len(mpm._queue) == 0)
        (folder,) = folders(tmp_path)
        assert sum(it.stat().st_size for it in (folder / "log").glob("*.log")) < 1_000_000
        mpm.end()
        assert mpm.get_logging_errors() == []
    assert folders(tmp_path) == []


def test_what_could_not_be_sent_before_the_end_stays_and_is_told(own_service: Service, tmp_path: Path) -> None:
    ledger = Ledger(own_service, unique("model"))
    with open_logger(own_service, ledger.model_name, spool_directory=tmp_path) as mpm:
        ledger.log(mpm, 100)
        mpm.end(0.5)
        told = messages(mpm)
    assert f"100 events were not sent within 0.5 s. They stay in {tmp_path}" in told
    assert "given up" not in told and f"of events wait in {tmp_path} and are sent once it answers" in told
    own_service.start()
    with open_logger(own_service, unique("another"), spool_directory=tmp_path) as mpm:
        mpm.end(60)
    ledger.expect_stored()


def test_with_a_wrong_key_events_stay_until_there_is_a_right_one(service: Service, tmp_path: Path) -> None:
    ledger = Ledger(service, unique("model"))
    with open_logger(service, ledger.model_name, spool_directory=tmp_path, api_key="wrong", max_batch_time=0) as mpm:
        ledger.log(mpm, 100)
        eventually(lambda: "until that is mended" in messages(mpm))
        mpm.end(30)
    assert len(folders(tmp_path)) == 1
    with open_logger(service, unique("another"), spool_directory=tmp_path) as mpm:
        mpm.end(60)
    ledger.expect_stored()


def test_what_is_meant_for_another_service_and_what_a_process_still_writes_is_left_alone(
    service: Service, own_service: Service, tmp_path: Path
) -> None:
    elsewhere, busy = unique("model"), unique("model")
    with open_logger(own_service, elsewhere, spool_directory=tmp_path) as mpm:
        mpm.log_event("one")
        mpm.end(0)
    with open_logger(service, busy, spool_directory=tmp_path, max_batch_time=3_600) as still_open:
        still_open.log_event("one")
        eventually(lambda: len(folders(tmp_path)) == 2)
        with open_logger(service, unique("another"), spool_directory=tmp_path) as mpm:
            mpm.end(60)
            assert mpm.get_logging_errors() == []
        assert len(folders(tmp_path)) == 2
        still_open.end()
    expect_counts(service, busy, events=1)
    assert len(folders(tmp_path)) == 1


def test_a_logger_that_logged_nothing_ends_at_once(service: Service, tmp_path: Path) -> None:
    def is_idle() -> bool:
        (sender,) = [it for it in threading.enumerate() if it.name == "svc-mpm-sender"]
        frame = sys._current_frames()[sender.ident or 0]
        assert "_step" in [it.name for it in traceback.extract_stack(frame)]
        return True

    with open_logger(service, unique("model"), spool_directory=tmp_path) as mpm:
        assert eventually(is_idle), "the key is checked, and nothing is there to send"
        ending = threading.Thread(target=mpm.end, args=(3_600,), daemon=True)
        ending.start()
        ending.join(120)
        assert not ending.is_alive()


@pytest.mark.parametrize("kind", ["unwritable", "full"])
def test_what_the_disk_does_not_take_is_sent_from_memory_bounded_and_drops_are_counted(
    own_service: Service, tmp_path: Path, kind: str
) -> None:
    model = unique("model")
    spool = tmp_path / "spool"
    settings = {"SVC_MPM_QUEUE_BYTES": "100000", "SVC_MPM_SPOOL_BYTES": "50000"}
    if kind == "unwritable":
        spool.write_text("in the way")
    with open_logger(own_service, model, settings, max_batch_size=10, spool_directory=spool) as mpm:
        mpm.log_event("first")
        eventually(lambda: "cannot be reached" in messages(mpm))
        for number in range(3_000):
            mpm.log_event(f"event {number}", {"text": "x" * 100})
        eventually(lambda: "wait in memory, and end with this process" in messages(mpm))
        for number in range(3_000, 4_000):
            mpm.log_event(f"event {number}", {"text": "x" * 100})
        told = messages(mpm)
        assert ("cannot be written" if kind == "unwritable" else "is full (50,000 bytes") in told
        counts = re.findall(
            r"an event was dropped: .*SVC_MPM_QUEUE_BYTES.*?(?:\(([\d,]+) times\))?$", told, re.MULTILINE
        )
        dropped = sum(int((it or "1").replace(",", "")) for it in counts)
        assert 2_000 < dropped < 4_000
        own_service.start()
        mpm.end(60)
        assert "given up" not in messages(mpm)
    expect_counts(own_service, model, events=4_001 - dropped)
    assert not spool.is_dir() or folders(spool) == []


FORKS = """
    mpm.log_event("parent")
    while not mpm._queue.count_on_disk():
        time.sleep(0.01)
    if os.fork() == 0:
        mpm.log_event("child")
        while not mpm._queue.count_on_disk():
            time.sleep(0.01)
        print("written", os.getpid(), flush=True)
    time.sleep(600)
"""


def test_a_fork_has_a_folder_of_its_own_and_does_not_hold_that_of_its_parent(
    own_service: Service, tmp_path: Path
) -> None:
    model = unique("model")
    # Neither is to send anything by itself.
    process = start(own_service, tmp_path, model, FORKS, MPM_MAX_BATCH_TIME="3600")
    assert process.stdout is not None
    child = int(process.stdout.readline().split()[1])
    try:
        process.kill()
        process.wait()
        own_service.start()
        with open_logger(own_service, unique("another"), spool_directory=tmp_path) as mpm:
            mpm.end(60)
        expect_counts(own_service, model, events=1)
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()
    (folder,) = folders(tmp_path)
    eventually(lambda: is_free(folder))
    with open_logger(own_service, unique("another"), spool_directory=tmp_path) as mpm:
        mpm.end(60)
    expect_counts(own_service, model, events=2)
