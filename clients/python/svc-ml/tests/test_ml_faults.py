"""Every point of a ledger arrives once, whatever happens to the service and to the process that logs."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from conftest import Service, eventually
from ml_ledger import environment, quiet, read_points, read_values, run_script, start_script, sync
from svc_ml import Experiment


@pytest.fixture
def settings(own_service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(own_service, tmp_path).items():
        monkeypatch.setenv(name, value)


def log(experiment: Experiment, steps: range) -> None:
    for step in steps:
        experiment.log_metric("loss", step * 0.5, step=step)


def a_ledger(count: int) -> list[tuple[int | None, float]]:
    return [(step, step * 0.5) for step in range(count)]


@pytest.mark.usefixtures("settings")
def test_a_service_killed_again_and_again_gets_every_point_once(own_service: Service) -> None:
    own_service.start()
    experiment = Experiment()
    for number in range(6):
        experiment.log_parameter(f"p{number}", number)
    is_over = threading.Event()
    logged = []

    def train() -> None:
        while not is_over.is_set():
            log(experiment, range(len(logged), len(logged) + 1))
            logged.append(1)
            time.sleep(0.001)

    trainer = threading.Thread(target=train)
    trainer.start()
    for _ in range(3):
        time.sleep(1.5)
        own_service.kill()
        time.sleep(0.5)
        own_service.start()
    is_over.set()
    trainer.join()
    experiment.end()
    assert len(logged) > 2_000
    eventually(lambda: read_points(own_service, experiment.id, "loss") == a_ledger(len(logged)))
    assert read_values(own_service, experiment.id, "parameters") == {f"p{it}": str(it) for it in range(6)}
    # It was watched being away.
    assert any("kept in" in it["message"] for it in experiment.get_logging_errors())


@pytest.mark.usefixtures("settings")
def test_a_service_that_is_away_at_the_start_gets_all_when_it_comes(own_service: Service) -> None:
    before = time.monotonic()
    experiment = Experiment()
    log(experiment, range(1_000))
    assert time.monotonic() - before < 30
    assert experiment.url is None
    own_service.start()
    log(experiment, range(1_000, 2_000))
    experiment.end()
    eventually(lambda: read_points(own_service, experiment.id, "loss") == a_ledger(2_000))
    message = experiment.get_logging_errors()[0]["message"]
    assert own_service.url in message and "cannot be reached" in message and "sent later" in message


@pytest.mark.usefixtures("settings")
def test_a_throttled_run_arrives_whole_and_waits_as_it_is_told(own_service: Service) -> None:
    own_service.start(SVC_POINTS_PER_MINUTE="3000")
    experiment = Experiment()
    log(experiment, range(2_500))
    experiment.flush(60)
    log(experiment, range(2_500, 3_500))
    experiment.end()
    errors = experiment.get_logging_errors()
    assert any("Too much was sent" in it["message"] for it in errors), errors
    eventually(lambda: read_points(own_service, experiment.id, "loss") == a_ledger(3_500))


@pytest.mark.usefixtures("settings")
def test_what_a_dead_service_left_on_disk_is_sent_when_the_next_experiment_starts(
    own_service: Service, tmp_path: Path
) -> None:
    own_service.start()
    first = Experiment()
    log(first, range(500))
    own_service.kill()
    log(first, range(500, 900))
    first.end(timeout=2)
    assert len(list((tmp_path / "spool").iterdir())) == 1

    own_service.start()
    with Experiment():
        eventually(lambda: read_points(own_service, first.id, "loss") == a_ledger(900))
    eventually(lambda: list((tmp_path / "spool").iterdir()) == [])


LOGS_UNTIL_KILLED = """
    import sys, time
    from svc_ml import Experiment
    experiment = Experiment(experiment_key=sys.argv[1])
    step = 0
    while True:
        experiment.log_metric("loss", step * 0.5, step=step)
        step += 1
        if step % 100 == 0:
            # What stands in the ledger was on disk before.
            experiment._run.channel.write()
            print(step, flush=True)
            time.sleep(0.01)
"""


def test_of_a_process_that_is_killed_all_that_was_written_arrives_once(own_service: Service, tmp_path: Path) -> None:
    own_service.start()
    variables = environment(own_service, tmp_path)
    promised: dict[str, int] = {}
    for number in range(4):
        key = f"{number:032x}"
        process = start_script(LOGS_UNTIL_KILLED, variables, key)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.3 + 0.2 * number)
        if number == 2:
            own_service.kill()
            time.sleep(0.5)
        process.send_signal(signal.SIGKILL)
        lines = process.communicate()[0].split()
        promised[key] = int(lines[-1])
    # A tail that was torn off, as a power cut leaves it.
    for segment in (tmp_path / "spool").glob("*/stream/*.log"):
        with segment.open("ab") as file:
            file.write(b"\x00\x10\x00\x00torn")
    own_service.start()
    done = sync(tmp_path / "spool", variables)
    assert done.returncode == 0, done.stderr
    assert "torn off" in done.stderr
    for key, count in promised.items():

        def look(key: str = key, count: int = count) -> bool:
            found = read_points(own_service, key, "loss")
            assert len(found) >= count
            assert found == a_ledger(len(found)), "each once, and none left out"
            return True

        assert eventually(look)
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_terminated_process_has_sent_everything(service: Service, tmp_path: Path) -> None:
    script = """
        import sys, time
        from svc_ml import Experiment
        experiment = Experiment()
        for step in range(3000):
            experiment.log_metric("loss", step * 0.5, step=step)
        print(experiment.id, flush=True)
        # Not one long sleep: a signal just before it begins would be noticed at its end (as of any Python program).
        while True:
            time.sleep(0.1)
    """
    process = start_script(script, environment(service, tmp_path))
    assert process.stdout is not None
    key = process.stdout.readline().strip()
    process.terminate()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM, errors
    try:
        eventually(lambda: read_points(service, key, "loss") == a_ledger(3_000))
    except AssertionError as error:
        count = len(read_points(service, key, "loss"))
        raise AssertionError(f"{count} points of {key!r} are there. It said:\n{errors}") from error
    metadata = service.get(f"/api/rest/v2/experiment/metadata?experimentKey={key}")
    assert metadata["hasCrashed"] is True and "SIGTERM" in metadata["error"]


def test_a_call_that_a_termination_interrupts_holds_up_nothing(service: Service, tmp_path: Path) -> None:
    script = """
        import os, signal
        from svc_ml import Experiment, output
        experiment = Experiment()
        experiment.log_metric("loss", 0.5, step=0)
        print(experiment.id, flush=True)
        # Where a printed line is captured, counted and put into the queue; the writer needs one of these locks, the end both.
        with output._lock, experiment._run.channel._count_lock:
            print("interrupted", flush=True)
            os.kill(os.getpid(), signal.SIGTERM)
    """
    process = start_script(script, environment(service, tmp_path))
    output, errors = process.communicate(timeout=120)
    key, _ = output.split()
    assert process.returncode == -signal.SIGTERM, errors
    eventually(lambda: read_points(service, key, "loss") == [(0, 0.5)])


def test_a_process_that_ends_by_itself_while_it_is_terminated_has_sent_everything(
    service: Service, tmp_path: Path
) -> None:
    script = """
        import os, signal, time
        from svc_ml import Experiment
        experiment = Experiment()
        experiment.log_metric("loss", 0.5, step=0)
        print(experiment.id, flush=True)
        # Longer than the handler waits before it lets this thread go on, which then has nothing more to do.
        experiment._run.closers.append(lambda: time.sleep(4))
        os.kill(os.getpid(), signal.SIGTERM)
    """
    process = start_script(script, environment(service, tmp_path))
    output, errors = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGTERM, errors
    eventually(lambda: read_points(service, output.strip(), "loss") == [(0, 0.5)])


def test_a_handler_that_prints_and_logs_may_interrupt_the_same(service: Service, tmp_path: Path) -> None:
    script = """
        import os, signal
        asked = []
        def handle(number, frame):
            asked.append(number)
            print("asked to end", flush=True)
            experiment.log_metric("loss", 0.5, step=0)
            experiment.log_other("asked", "yes")
        signal.signal(signal.SIGTERM, handle)
        from svc_ml import Experiment, output
        experiment = Experiment()
        print(experiment.id, flush=True)
        with output._lock, experiment._run.channel._count_lock:
            os.kill(os.getpid(), signal.SIGTERM)
        assert len(asked) == 1
    """
    process = start_script(script, environment(service, tmp_path))
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    key, *rest = output.split("\n")
    assert rest[0] == "asked to end"
    eventually(lambda: read_points(service, key, "loss") == [(0, 0.5)])


def test_a_handler_of_its_own_for_sigterm_goes_on_working(service: Service, tmp_path: Path) -> None:
    script = """
        import signal, sys, time
        asked = []
        signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
        from svc_ml import Experiment
        experiment = Experiment()
        print(experiment.id, flush=True)
        while not asked:
            time.sleep(0.01)
        experiment.log_metric("after", 1)
    """
    process = start_script(script, environment(service, tmp_path))
    assert process.stdout is not None
    key = process.stdout.readline().strip()
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 0
    eventually(lambda: read_points(service, key, "after") == [(None, 1.0)])


def test_a_script_that_never_calls_end_and_one_that_fails_have_sent_everything(
    service: Service, tmp_path: Path
) -> None:
    variables = environment(service, tmp_path)
    script = """
        from svc_ml import Experiment
        experiment = Experiment()
        for step in range(500):
            experiment.log_metric("loss", step * 0.5, step=step)
        print(experiment.id)
    """
    output, errors = run_script(script, variables)
    assert f"/default/clients/{output.strip()}" in errors, "the link is printed"
    eventually(lambda: read_points(service, output.strip(), "loss") == a_ledger(500))

    process = start_script(script + "    raise RuntimeError('out of memory')\n", variables)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and "out of memory" in errors
    eventually(lambda: read_points(service, output.strip(), "loss") == a_ledger(500))
    metadata = service.get(f"/api/rest/v2/experiment/metadata?experimentKey={output.strip()}")
    assert metadata["hasCrashed"] is True and metadata["error"] == "RuntimeError: out of memory"


@pytest.mark.usefixtures("settings")
def test_a_full_disk_bound_is_told_once_and_counted_and_the_training_goes_on(
    own_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SVC_SPOOL_BYTES", "400000")
    experiment = Experiment(**quiet)
    channel = experiment._run.channel
    assert channel is not None
    for round in range(30):
        log(experiment, range(round * 1_000, (round + 1) * 1_000))
        channel.write()
    assert 10_000 < channel.dropped < 30_000
    own_service.start()
    channel.flush(30)
    log(experiment, range(30_000, 31_000))
    experiment.end()
    messages = [it["message"] for it in experiment.get_logging_errors()]
    assert any("is full (400000 bytes)" in it for it in messages)
    assert f"{channel.dropped:,} entries (points, lines of output, calls) were dropped." in messages

    def look() -> bool:
        found = read_points(own_service, experiment.id, "loss")
        assert len(set(found)) == len(found) == 31_000 - channel.dropped
        assert found[-1_000:] == a_ledger(31_000)[-1_000:], (
            "there is room again once the service has taken what was there"
        )
        return True

    assert eventually(look)


@pytest.mark.usefixtures("settings")
def test_a_full_queue_makes_a_call_wait_once_and_then_drops_and_counts(
    own_service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SVC_QUEUE_BYTES", "1000000")
    monkeypatch.setenv("SVC_BLOCK_SECONDS", "0.3")
    # The disk refuses, a file stands where the folder should be; and the service is away.
    (tmp_path / "spool").write_text("in the way")
    experiment = Experiment(**quiet)
    channel = experiment._run.channel
    assert channel is not None
    log(experiment, range(20_000))
    dropped = channel.dropped
    assert 10_000 < dropped < 20_000
    own_service.start()
    experiment.end()
    assert channel.dropped == dropped, "what was in memory is sent from there"
    messages = [it["message"] for it in experiment.get_logging_errors()]
    assert any("cannot be written" in it and "sent out of memory" in it for it in messages)
    assert any("queue is full" in it for it in messages)
    eventually(lambda: read_points(own_service, experiment.id, "loss") == a_ledger(20_000 - dropped))


@pytest.mark.usefixtures("settings")
def test_what_neither_disk_nor_service_took_is_counted_to_the_last_point(
    own_service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spool").write_text("in the way")
    monkeypatch.setenv("SVC_STALL_SECONDS", "1")
    # Or else the path of the program is logged too, where pytest was started as one.
    monkeypatch.setattr(sys, "argv", [""])
    experiment = Experiment(**quiet)
    channel = experiment._run.channel
    assert channel is not None
    log(experiment, range(5_000))
    experiment.end()
    # The points, and the three calls with the begin and the end of the run.
    assert channel.dropped == 5_003
    messages = [it["message"] for it in experiment.get_logging_errors()]
    assert any("5,003 entries end with this process" in it for it in messages), messages


DISK_FILLS_UP = """
    import resource, sys
    from svc_ml import Experiment
    # No file may grow beyond this: a write is refused as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    experiment = Experiment()
    for round in range(5):
        for step in range(round * 20_000, round * 20_000 + 20_000):
            experiment.log_metric("loss", step * 0.5, step=step)
        experiment.log_parameter("last", round)
        experiment.log_asset(bytes(200_000), file_name=f"bytes-{round}")
    experiment.log_asset(sys.argv[1], file_name="file")
    experiment.end()
    print(experiment.id, experiment._run.channel.dropped)
"""


def test_a_disk_that_fills_up_costs_nothing_while_the_service_is_there(service: Service, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 300_000)
    output, errors = run_script(DISK_FILLS_UP, environment(service, tmp_path), str(tmp_path / "large"))
    key, dropped = output.split()
    assert dropped == "0" and "cannot be written" in errors and "Files cannot be copied" in errors
    eventually(lambda: read_points(service, key, "loss") == a_ledger(100_000))
    assert read_values(service, key, "parameters") == {"last": "4"}
    found = service.get(f"/api/rest/v2/experiment/asset/list?experimentKey={key}&type=asset")["assets"]
    assert sorted((it["fileName"], it["fileSize"]) for it in found) == [
        *[(f"bytes-{it}", 200_000) for it in range(5)],
        ("file", 300_000),
    ]


@pytest.mark.parametrize(
    ("ending", "status", "crash"),
    [
        ("with experiment: sys.exit(0)", 0, None),
        ("with experiment: sys.exit(3)", 3, "SystemExit: 3"),
        ("sys.exit(0)", 0, None),
        ("sys.exit('no data')", 1, "SystemExit: no data"),
        ("try: sys.exit(1)\n    except SystemExit: experiment.end()", 0, None),
    ],
)
def test_the_status_that_a_script_ends_with_is_how_the_run_ended(
    service: Service, tmp_path: Path, ending: str, status: int, crash: str | None
) -> None:
    script = f"""
    import sys
    from svc_ml import Experiment
    experiment = Experiment(auto_output_logging=False)
    print(experiment.id, flush=True)
    {ending}
"""
    process = start_script(script, environment(service, tmp_path))
    output, errors = process.communicate(timeout=60)
    assert process.returncode == status, errors
    metadata = service.get(f"/api/rest/v2/experiment/metadata?experimentKey={output.split()[0]}")
    assert (metadata["running"], metadata["hasCrashed"], metadata.get("error")) == (False, crash is not None, crash)
