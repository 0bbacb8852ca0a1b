"""One experiment written to by threads, forks, spawned processes and strangers: every point of each arrives once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from conftest import Service, eventually
from ml_ledger import environment, read_points, run_script, start_script
from svc_ml import Experiment


@pytest.fixture
def variables(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = environment(service, tmp_path)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


def a_ledger(writers: int, each: int) -> list[tuple[int | None, float]]:
    return sorted((writer * 1_000_000 + step, float(step)) for writer in range(writers) for step in range(each))


@pytest.mark.usefixtures("variables")
def test_threads_log_side_by_side(service: Service) -> None:
    def log(writer: int) -> None:
        for step in range(2_000):
            experiment.log_metric("loss", step, step=writer * 1_000_000 + step)

    with Experiment() as experiment:
        threads = [threading.Thread(target=log, args=(writer,)) for writer in range(8)]
        for it in threads:
            it.start()
        for it in threads:
            it.join()
    eventually(lambda: read_points(service, experiment.id, "loss") == a_ledger(8, 2_000))


FORKED = """
    import multiprocessing, os, sys, time
    from svc_ml import Experiment
    context = multiprocessing.get_context("fork")

    def log(experiment, writer):
        print("worker", writer)
        for step in range(500):
            experiment.log_metric("loss", step, step=writer * 1_000_000 + step)

    experiment = Experiment()
    print(experiment.id, flush=True)
    workers = [context.Process(target=log, args=(experiment, writer)) for writer in (1, 2, 3)]
    # Between and during the forks the parent logs on, so its queue is not empty when they happen.
    for step in range(100):
        experiment.log_metric("loss", step, step=step)
    for it in workers:
        it.start()
        for step in range(step + 1, step + 101):
            experiment.log_metric("loss", step, step=step)
    for step in range(step + 1, 500):
        experiment.log_metric("loss", step, step=step)
    for it in workers:
        it.join()
        assert it.exitcode == 0
"""


def test_forked_workers_log_to_the_experiment_of_their_parent(
    service: Service, variables: dict[str, str], tmp_path: Path
) -> None:
    output, _ = run_script(FORKED, variables)
    key = output.split()[0]
    eventually(lambda: read_points(service, key, "loss") == a_ledger(4, 500))
    assert list((tmp_path / "spool").iterdir()) == []
    assert service.get(f"/api/rest/v2/experiment/metadata?experimentKey={key}")["running"] is False
    printed = f"/api/rest/v2/experiment/output?experimentKey={key}"
    lines = [key, "worker 1", "worker 2", "worker 3"]
    eventually(lambda: sorted(service.get(printed)["output"].split("\n")) == sorted(lines))


def test_a_bare_fork_that_exits_has_sent_everything(service: Service, variables: dict[str, str]) -> None:
    script = """
        import os, sys
        from svc_ml import Experiment
        experiment = Experiment()
        experiment.log_metric("loss", 0, step=0)
        child = os.fork()
        if child == 0:
            experiment.log_metric("loss", 0, step=1_000_000)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(experiment.id)
    """
    output, _ = run_script(script, variables)
    eventually(lambda: read_points(service, output.strip(), "loss") == a_ledger(2, 1))


def test_an_experiment_goes_into_spawned_workers(service: Service, variables: dict[str, str], tmp_path: Path) -> None:
    module = tmp_path / "trainer.py"
    module.write_text("""
import multiprocessing
from svc_ml import Experiment

def log(experiment, writer):
    experiment.log_asset(b"data", file_name=f"of-{writer}")
    for step in range(500):
        experiment.log_metric("loss", step, step=writer * 1_000_000 + step)

if __name__ == "__main__":
    experiment = Experiment()
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=log, args=(experiment, writer)) for writer in (1, 2)]
    for it in workers:
        it.start()
    log(experiment, 0)
    for it in workers:
        it.join()
        assert it.exitcode == 0
    print(experiment.id)
""")
    output, _ = run_script(f"import runpy; runpy.run_path({str(module)!r}, run_name='__main__')", variables)
    key = output.strip()
    eventually(lambda: read_points(service, key, "loss") == a_ledger(3, 500))
    assets = service.get(f"/api/rest/v2/experiment/asset/list?experimentKey={key}&type=asset")["assets"]
    assert sorted(it["fileName"] for it in assets) == ["of-0", "of-1", "of-2"]


def test_strangers_log_to_one_experiment_at_once(service: Service, variables: dict[str, str]) -> None:
    script = """
        import sys
        from svc_ml import ExistingExperiment
        with ExistingExperiment(experiment_key=sys.argv[1]) as experiment:
            for step in range(500):
                experiment.log_metric("loss", step, step=int(sys.argv[2]) * 1_000_000 + step)
    """
    with Experiment() as experiment:
        others = [start_script(script, variables, experiment.id, str(writer)) for writer in (1, 2)]
        for step in range(500):
            experiment.log_metric("loss", step, step=step)
        for it in others:
            _, errors = it.communicate(timeout=60)
            assert it.returncode == 0, errors
    eventually(lambda: read_points(service, experiment.id, "loss") == a_ledger(3, 500))


def test_an_experiment_sent_along_with_every_task_of_a_pool_is_opened_once_in_each_process(
    service: Service, variables: dict[str, str], tmp_path: Path
) -> None:
    module = tmp_path / "pooled.py"
    module.write_text("""
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
from svc_ml import Experiment

def task(experiment, number):
    experiment.log_metric("loss", number, step=number)
    if number % 100 == 0:
        print("task", number)
    return os.getpid(), len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0

if __name__ == "__main__":
    experiment = Experiment()
    key = experiment.id
    for method in ("spawn", "fork"):
        with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
            first = 0 if method == "spawn" else 300
            found = list(pool.map(task, [experiment] * 300, range(first, first + 300)))
        assert max(count for _, count in found) < 60, found[-5:]
    experiment.end()
    sys.stdout.write(key)
""")
    script = f"import runpy; runpy.run_path({str(module)!r}, run_name='__main__')"
    output, _ = run_script(script, variables)
    key = output[-32:]
    eventually(lambda: read_points(service, key, "loss") == [(it, float(it)) for it in range(600)])
    printed = f"/api/rest/v2/experiment/output?experimentKey={key}"

    def look() -> bool:
        lines = service.get(printed)["output"].split("\n")
        assert sorted(it for it in lines if it.startswith("task")) == sorted(f"task {it}" for it in range(0, 600, 100))
        return True

    assert eventually(look), "each line once"
