"""Threads, forks, other processes, and the end of a program."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from mpm_events import Ledger, environment, expect_counts, expect_event, open_logger, unique

from conftest import Service


def test_many_threads_log_each_event_once(service: Service) -> None:
    ledger = Ledger(service, unique("model"))
    with open_logger(service, ledger.model_name, max_batch_size=97) as mpm:
        parts = [[ledger.add() for _ in range(250)] for _ in range(8)]
        threads = [threading.Thread(target=lambda part=part: [mpm.log_event(**it) for it in part]) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        mpm.end()
        assert mpm.get_logging_errors() == []
    ledger.expect_stored()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_fork_sends_its_own_events_and_not_those_of_its_parent(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model, max_batch_time=3600) as mpm:
        mpm.log_event("before")
        pids = []
        for number in range(3):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    mpm.log_event(f"child {number}")
                    mpm.end()
                    status = len(mpm.get_logging_errors())
                finally:
                    os._exit(status)
            pids.append(pid)
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0, 0]
        expect_counts(service, model, events=3)
        mpm.log_event("after")
        mpm.end()
        # Had a child sent what was its parent's, that would be told here.
        assert mpm.get_logging_errors() == []
    expect_counts(service, model, events=5)


PROGRAM = """
import multiprocessing, os, sys, threading
from svc_mpm import SvcMPM

def work(name):
    mpm.log_event(name, {"pid": os.getpid()})

if __name__ == "__main__":
    mpm = SvcMPM(model_name=sys.argv[1], workspace_name="default")
    """


def run(service: Service, model: str, lines: str) -> subprocess.CompletedProcess[str]:
    program = PROGRAM + lines.replace("\n", "\n    ")
    return subprocess.run(
        [sys.executable, "-c", program, model],
        env=os.environ | environment(service),
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize(
    ("how", "status"),
    [("pass", 0), ("sys.exit(3)", 3), ("raise RuntimeError('the model is broken')", 1)],
)
def test_a_program_that_ends_without_end_has_sent_everything(service: Service, how: str, status: int) -> None:
    model = unique("model")
    ended = run(service, model, f"work('one')\n{how}")
    assert ended.returncode == status, ended.stderr
    expect_event(service, model, "one")


def test_a_process_of_multiprocessing_that_was_forked_has_sent_everything_when_it_ends(service: Service) -> None:
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("there is no fork on this system")
    model = unique("model")
    lines = """context = multiprocessing.get_context("fork")
children = [context.Process(target=work, args=(f"child {it}",)) for it in range(3)]
for it in children: it.start()
for it in children: it.join()
work("parent")"""
    ended = run(service, model, lines)
    assert (ended.returncode, ended.stderr) == (0, "")
    expect_counts(service, model, events=4)


SPAWNING = """
import multiprocessing, sys
from svc_mpm import SvcMPM

mpm = SvcMPM(model_name="%s", workspace_name="default")

def work(name):
    mpm.log_event(name)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=work, args=(f"child {it}",)) for it in range(2)]
    for it in children: it.start()
    for it in children: it.join()
    work("parent")
"""


def test_a_process_of_multiprocessing_that_was_spawned_has_sent_everything_when_it_ends(
    service: Service, tmp_path: Path
) -> None:
    model = unique("model")
    program = tmp_path / "program.py"
    program.write_text(SPAWNING % model)
    ended = subprocess.run(
        [sys.executable, str(program)],
        env=os.environ | environment(service),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    expect_counts(service, model, events=3)


def test_a_program_ends_in_time_when_the_service_is_away(own_service: Service) -> None:
    ended = run(own_service, "model", "work('one')\nmpm.end(timeout=0.5)\nprint('ended')")
    assert (ended.returncode, ended.stdout) == (0, "ended\n")
    assert "1 events were not sent within 0.5 s and are given up" in ended.stderr


def test_pandas_is_not_imported_by_those_who_need_none(service: Service) -> None:
    ended = run(service, unique("model"), "work('one')\nprint(sorted({'pandas', 'numpy'} & set(sys.modules)))")
    assert ended.stdout == "[]\n", ended.stderr
