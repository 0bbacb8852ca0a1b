"""Runs of a source over processes, and again when the source grows."""

from __future__ import annotations

import copy
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from svc_ml.fault import SvcError, show_log
from svc_ml.importers.items import TORN, Source
from svc_ml.importers.report import Report
from svc_ml.importers.sender import OnPoints, RunSender, Target

OnRun = Callable[[int, int], None]
"""Told the size of a run that is done, and of all."""

_Sent = tuple[RunSender, Report]
_LOOK_SECONDS = 0.2


def import_once(
    source: Source, target: Target, workers: int, on_run: OnRun, on_points: OnPoints
) -> tuple[list[RunSender], Report]:
    """
    Brings all runs of a source. One that cannot be read or sent is named in the report, and the others go on.

    Raises SvcError when there is no such source.
    """
    report = Report()
    waiting = [RunSender(source.kind, run, target) for run in source.runs()]
    for it in source.left_out():
        report.leave(it.what, it.why, it.count)
    report.failed.extend(source.failed())
    _refuse_twins(waiting)
    sizes = [it.run.size() for it in waiting]
    whole = sum(sizes)
    # The largest first: begun last it would run alone at the end.
    order = sorted(range(len(waiting)), key=lambda at: -sizes[at])
    senders = []
    for at, (sender, sent) in _in_processes([waiting[at] for at in order], target, min(workers, len(order)), on_points):
        senders.append(sender)
        report.add(sent)
        on_run(sizes[order[at]], whole)
    return senders, report


def follow(
    source: Source,
    target: Target,
    senders: list[RunSender],
    on_report: Callable[[Report], None],
    is_over: Callable[[], bool],
) -> None:
    """
    Goes on with a source, with runs that are known and with new ones.

    is_over: waits until it is time for another look, and is true when there is to be none.
    """
    known = {it.key: it for it in senders}
    while not is_over():
        report = Report()
        for run in source.runs():
            sender = RunSender(source.kind, run, target)
            known.setdefault(sender.key, sender).run.take_over(run)
        for key, sender in list(known.items()):
            known[key], sent = _send(sender, target, _ignore)
            report.add(sent)
        # What is not whole yet is being written.
        report.left_out = {it: count for it, count in report.left_out.items() if it[0] != TORN}
        on_report(report)


def _refuse_twins(senders: list[RunSender]) -> None:
    seen: dict[str, RunSender] = {}
    for it in senders:
        twin = seen.setdefault(it.key, it)
        if twin is not it:
            raise SvcError(
                f"{twin.run.name} and {it.run.name} are the same run, perhaps because one is a copy of the other. "
                "Import one of them, or each by itself with another --project."
            )


def _in_processes(
    senders: list[RunSender], target: Target, workers: int, on_points: OnPoints
) -> Iterator[tuple[int, _Sent]]:
    if workers <= 1:
        for at, it in enumerate(senders):
            yield at, _send(it, target, on_points)
        return
    # Not forked: threads of this process may hold locks.
    context = multiprocessing.get_context("spawn")
    counter = context.Value("q", 0)
    told = 0
    with ProcessPoolExecutor(workers, context, _begin_worker, (counter,)) as pool:
        futures = {pool.submit(_send_in_worker, it, target): at for at, it in enumerate(senders)}
        waiting: Iterable[Future[_Sent]] = futures
        try:
            while waiting:
                done, waiting = wait(waiting, _LOOK_SECONDS, FIRST_COMPLETED)
                on_points(counter.value - told)
                told = counter.value
                for future in done:
                    yield futures[future], future.result()
        except BrokenProcessPool:
            raise SvcError("a worker process was killed. Run the same command again to go on.") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_counters: list[Any] = []
"""In a worker process: that of all points, which the processes share."""


def _begin_worker(counter: Any) -> None:
    show_log()
    _counters.append(counter)


def _send_in_worker(sender: RunSender, target: Target) -> _Sent:
    [counter] = _counters

    def on_points(count: int) -> None:
        with counter.get_lock():
            counter.value += count

    return _send(sender, target, on_points)


def _ignore(_: int) -> None:
    pass


def _send(sender: RunSender, target: Target, on_points: OnPoints) -> _Sent:
    """The sender as it is now; after a failure as it was before, so that what did not arrive is read again."""
    before = copy.deepcopy(sender)
    try:
        return sender, sender.send(target, on_points)
    except (SvcError, OSError, ValueError, LookupError, ArithmeticError) as error:
        report = Report()
        report.failed.append(f"{sender.run.name}: {error}" if str(error) else f"{sender.run.name}: {error!r}")
        return before, report


def wait_seconds(seconds: float) -> Callable[[], bool]:
    def wait() -> bool:
        time.sleep(seconds)
        return False

    return wait
