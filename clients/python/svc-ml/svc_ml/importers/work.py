"""Runs of a source over processes, and again when the source grows."""

from __future__ import annotations

import copy
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from svc_ml.fault import SvcError, show_log
from svc_ml.importers.items import TORN, Source
from svc_ml.importers.report import Report
from svc_ml.importers.sender import RunSender, Target

OnRun = Callable[[int, int], None]
"""Told the size of a run that is done, and of all."""

_Sent = tuple[RunSender, Report]


def import_once(source: Source, target: Target, workers: int, on_run: OnRun) -> tuple[list[RunSender], Report]:
    """
    Brings all runs of a source. One that cannot be read or sent is named in the report, and the others go on.

    Raises SvcError when there is no such source.
    """
    report = Report()
    waiting = [RunSender(source.kind, run, target) for run in source.runs()]
    for it in source.left_out():
        report.leave(it.what, it.why, it.count)
    _refuse_twins(waiting)
    sizes = [it.run.size() for it in waiting]
    whole = sum(sizes)
    # The largest first: begun last it would run alone at the end.
    order = sorted(range(len(waiting)), key=lambda at: -sizes[at])
    senders = []
    for at, (sender, sent) in _in_processes([waiting[at] for at in order], target, min(workers, len(order))):
        senders.append(sender)
        report.add(sent)
        on_run(sizes[order[at]], whole)
    return senders, report


def follow(
    source: Source,
    target: Target,
    senders: list[RunSender],
    on_report: Callable[[Report], None],
    wait: Callable[[], bool],
) -> None:
    """Goes on with a source: with runs that are known and with new ones, until `wait` returns true."""
    known = {it.key: it for it in senders}
    while not wait():
        report = Report()
        for run in source.runs():
            sender = RunSender(source.kind, run, target)
            known.setdefault(sender.key, sender).run.take_over(run)
        for key, sender in list(known.items()):
            known[key], sent = _send(sender, target)
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


def _in_processes(senders: list[RunSender], target: Target, workers: int) -> Iterator[tuple[int, _Sent]]:
    if workers <= 1:
        for at, it in enumerate(senders):
            yield at, _send(it, target)
        return
    # Not forked: threads of this process may hold locks.
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), show_log) as pool:
        futures = {pool.submit(_send, it, target): at for at, it in enumerate(senders)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            raise SvcError("a worker process was killed. Run the same command again to go on.") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _send(sender: RunSender, target: Target) -> _Sent:
    """The sender as it is now; after a failure as it was before, so that what did not arrive is read again."""
    before = copy.deepcopy(sender)
    try:
        return sender, sender.send(target)
    except (SvcError, OSError, ValueError, LookupError, ArithmeticError) as error:
        report = Report()
        report.failed.append(f"{sender.run.name}: {error}" if str(error) else f"{sender.run.name}: {error!r}")
        return before, report


def wait_seconds(seconds: float) -> Callable[[], bool]:
    def wait() -> bool:
        time.sleep(seconds)
        return False

    return wait
