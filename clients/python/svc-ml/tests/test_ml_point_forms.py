"""Points travel as JSON or as Arrow. Both are the same points: exact, and stored once when one attempt is made in each."""

from __future__ import annotations

import http.client
import http.server
import math
import random
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pyarrow
import pyarrow.ipc
import pytest

from conftest import Service, eventually
from ml_ledger import environment, quiet, read, read_points, run_script
from svc_ml import Experiment
from svc_ml.client.spool.log import Record
from svc_ml.fault import Faults
from svc_ml.spool import arrow, record
from svc_ml.spool.series import Series, from_json, to_json
from svc_ml.transport.delivery import Delivery, Progress, Registration
from svc_ml.transport.service import Service as Calls

VALUES = [0.1, -0.0, 5e-324, sys.float_info.max, math.inf, -math.inf, math.nan]
STEPS = [0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)]
NEGATIVE_NAN = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]
EVERY = Series("every", "train", [*VALUES, 1.5], [*STEPS, None, 7], [*STEPS[::-1], 3, None], [*range(1, 8), None])


def choose_series(choose: random.Random) -> Series:
    count = choose.randrange(1, 20)

    def a_column() -> Optional[list[Optional[int]]]:
        kind = choose.randrange(3)
        full: list[Optional[int]] = [choose.choice(STEPS) for _ in range(count)]
        return None if kind == 0 else full if kind == 1 else [*full[1:], None]

    values = [choose.choice(VALUES) for _ in range(count)]
    first_index = choose.choice([None, choose.randrange(1_000)])
    steps, epochs, timestamps = a_column(), a_column(), a_column()
    return Series(choose.choice("aäb\0"), choose.choice(["", "é"]), values, steps, epochs, timestamps, first_index)


def to_plain(series: list[Series]) -> list[Any]:
    """NaN equals itself, and a column of which nothing is there is absent."""
    columns = [[None if not it or set(it) == {None} else list(it) for it in row[3:6]] for row in series]
    return [
        (it.name, it.context, [struct.pack("<d", value) for value in it.values], *more, it.first_index)
        for it, more in zip(series, columns)
    ]


@pytest.mark.parametrize("seed", range(30))
def test_both_forms_hold_the_same_and_pyarrow_reads_ours(seed: int) -> None:
    choose = random.Random(seed)
    series = [choose_series(choose) for _ in range(choose.randrange(1, 12))]
    batch = arrow.encode_batch(series)
    assert to_plain(arrow.decode_batch(batch)) == to_plain(series)
    assert to_plain(from_json(",".join(map(to_json, series)).encode())) == to_plain(series)

    table = pyarrow.ipc.open_stream(arrow.to_stream("key", [batch, batch])).read_all()
    table.validate(full=True)
    assert table.schema.metadata == {b"experimentKey": b"key"}
    rows = [Series(*(it[name] for name in table.schema.names)) for it in table.to_pylist()]
    assert to_plain(rows) == to_plain(series) * 2


@pytest.mark.parametrize(("name", "step"), [("half \ud800", 1), ("beyond", 2**63), ("fraction", 1.5)])
def test_what_has_no_place_in_arrow_stays_json(name: str, step: Any) -> None:
    points: list[Any] = [(name, "", float(it), step, None, 1) for it in range(100)]
    assert record.encode_points(points).kind == record.POINTS
    fitting: Any = [("loss", "", float(it), it, None, 1) for it in range(100)]
    assert record.encode_points(fitting).kind == record.POINTS_ARROW
    assert record.to_arrow_batches([record.encode_points(fitting), record.encode_points(points)]) is None


def create(service: Service) -> str:
    body = {"workspaceName": "default", "projectName": "forms"}
    key: str = service.post("/api/rest/v2/write/experiment/create", body)["experimentKey"]
    return key


def deliver(service: Service, key: str, records: list[Record], batch: str, takes_arrow: bool, url: str = "") -> Faults:
    calls, faults = Calls(url or service.url, service.api_key), Faults()
    calls.takes_arrow = takes_arrow
    delivery = Delivery(
        calls,
        Registration(key, None, may_exist=True),
        folder=Path(),
        context="",
        faults=faults,
        progress=Progress(),
        stop=threading.Event(),
        hurry=threading.Event(),
    )
    delivery.deliver(records, batch)
    return faults


def read_all(service: Service, key: str, metric: str, count: int) -> list[Any]:
    """Every stored point of a metric, once there are so many."""

    def look() -> Any:
        points = read(service, key, "metrics/get-metric", metricName=metric)["metrics"]
        return points if len(points) >= count else None

    points = eventually(look)
    assert len(points) == count
    return sorted((str(it["step"]), str(it["epoch"]), it["timestamp"], it["metricValue"]) for it in points)


def to_records(kind: str) -> list[Record]:
    """Points that the service stores as chunks, as rows of a request, and as rows with an index of their own."""
    long = Series("long", "", [it / 7 for it in range(200)], list(range(200)), None, [1] * 200)
    odd = Series("odd", "", [NEGATIVE_NAN, math.nan, 0.5, math.inf] * 5, list(range(20)), None, None)
    if kind == "chunks":
        return [record.encode_series([EVERY, odd, long])]
    if kind == "rows":
        short = [Series(f"short-{it}", "", [it / 3], [it], None, [it + 1]) for it in range(300)]
        return [record.encode_series([*short, EVERY])]
    if kind == "own indexes":
        return [record.encode_series([it._replace(first_index=at * 1_000) for at, it in enumerate([EVERY, odd, long])])]
    small = Record(record.POINTS, 8, to_json(EVERY).encode())
    return [small, record.encode_series([long]), small, small, record.encode_series([odd, long])]


@pytest.mark.parametrize("kind", ["chunks", "rows", "own indexes", "mixed"])
@pytest.mark.parametrize("first", [False, True])
def test_the_same_points_sent_in_both_forms_are_stored_once(service: Service, kind: str, first: bool) -> None:
    records = to_records(kind)
    assert any(it.kind == record.POINTS_ARROW for it in records)
    once, twice = create(service), create(service)
    assert len(deliver(service, once, records, f"{once}-b", takes_arrow=False)) == 0
    for takes_arrow in (first, not first, first):
        assert len(deliver(service, twice, records, f"{twice}-b", takes_arrow)) == 0
    # Sent last: what was sent before is stored by then.
    last = record.encode_series([Series("last", "", [0.5] * 100, None, None, None)])
    deliver(service, twice, [last], f"{twice}-last", takes_arrow=True)
    read_all(service, twice, "last", 100)
    counts = {"every": 8 * (3 if kind == "mixed" else 1)}
    counts |= {"short-299": 1} if kind == "rows" else {"long": 200 * (2 if kind == "mixed" else 1), "odd": 20}
    for name, count in counts.items():
        stored = [read_all(service, key, name, count) for key in (once, twice)]
        # Where no time was logged it is that of the arrival.
        as_json, as_both = ([it for it in points if it[2] < 1_000] for points in stored)
        assert as_json == as_both and (len(as_json) > 0 or name == "odd")
    steps = {it["step"] for it in read(service, twice, "metrics/get-metric", metricName="every")["metrics"]}
    assert steps == {*STEPS, None, 7}


@pytest.mark.parametrize("takes_arrow", [False, True])
def test_refused_points_are_named_in_both_forms(service: Service, takes_arrow: bool) -> None:
    names = [*(f"m{it}" for it in range(5)), "x" * 1_001]
    series = [Series(it, "", [0.5] * 20, list(range(20)), None, None) for it in names]
    faults = deliver(service, create(service), [record.encode_series(series)], "refused", takes_arrow)
    (fault,) = faults.read(clear=True)
    assert fault["message"].startswith(
        f"The service refused 20 of 120 points ({'x' * 60!r}), the first because: series[5]"
    )


@pytest.fixture
def older(service: Service) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """What stands before the service refuses Arrow as a service of before did; and the type and status of each request."""
    seen: list[tuple[str, int]] = []

    class Front(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            kind = self.headers["content-type"]
            status, answer = 415, b'{"msg":"The Content-Type is not understood: send application/json.","code":415}'
            if kind == "application/json":
                inner = http.client.HTTPConnection("127.0.0.1", service.port)
                inner.request("POST", self.path, body, dict(self.headers))
                response = inner.getresponse()
                status, answer = response.status, response.read()
            seen.append((kind, status))
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Front)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    server.server_close()


def test_a_service_that_does_not_know_arrow_gets_json(
    service: Service, older: tuple[str, list[tuple[str, int]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, seen = older
    for name, value in environment(service, tmp_path).items():
        monkeypatch.setenv(name, value)
    experiment = Experiment(url=url, **quiet)
    for part in range(3):
        for step in range(part * 1_000, part * 1_000 + 1_000):
            experiment.log_metric("loss", step / 7, step=step)
        experiment.flush(60)
    experiment.end()
    eventually(lambda: read_points(service, experiment.id, "loss") == [(step, step / 7) for step in range(3_000)])
    assert [it[1] for it in seen].count(415) == 1 and len(seen) >= 4
    assert experiment.get_logging_errors() == []


def test_a_trainer_sends_arrow_without_pyarrow(service: Service, tmp_path: Path) -> None:
    script = """
        import sys
        from svc_ml import Experiment
        from svc_ml.spool import arrow

        sys.path += sys.argv[1:]
        from ml_ledger import quiet

        sent = []
        to_stream = arrow.to_stream
        arrow.to_stream = lambda key, batches: sent.append(1) or to_stream(key, batches)
        experiment = Experiment(**quiet)
        for step in range(2_000):
            experiment.log_metrics({"loss": step / 7, "wrong": float("nan")}, step=2**60 + step)
        experiment.end()
        print(experiment.id, len(sent) > 0, "pyarrow" in sys.modules)
    """
    folder = Path(__file__).parent
    output, _ = run_script(script, environment(service, tmp_path), str(folder), str(folder.parent.parent))
    key, has_sent, has_pyarrow = output.splitlines()[-1].split()
    assert (has_sent, has_pyarrow) == ("True", "False")
    eventually(lambda: read_points(service, key, "loss") == [(2**60 + step, step / 7) for step in range(2_000)])
    assert [str(it[1]) for it in read_points(service, key, "wrong")] == ["nan"] * 2_000
