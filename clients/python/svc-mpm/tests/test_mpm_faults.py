"""The service is killed, throttles, is away, refuses: every event arrives once, or is told of."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from mpm_events import (
    Ledger,
    environment_of,
    expect_counts,
    expect_event,
    in_between,
    messages,
    open_logger,
    unique,
)

from conftest import Service, eventually
from svc_mpm import InitializationError, SvcMPM


def test_killed_again_and_again_each_event_is_stored_once(own_service: Service) -> None:
    own_service.start()
    ledger = Ledger(own_service, unique("model"))
    with open_logger(own_service, ledger.model_name, max_batch_size=50, max_batch_time=1) as mpm:
        for _ in range(2):
            ledger.log(mpm, 400)
            # In the middle of the sending: some batches have been answered, one is on its way.
            eventually(lambda: mpm._delivery.accepted > 0)
            own_service.kill()
            ledger.log(mpm, 300)
            eventually(mpm.has_logging_error)
            own_service.start()
        mpm.end(120)
        told = messages(mpm)
    assert "wait in memory and are sent once it answers" in told
    assert "given up" not in told
    ledger.expect_stored()


def test_throttled_each_event_is_stored_once(own_service: Service, caplog: pytest.LogCaptureFixture) -> None:
    own_service.start(SVC_EVENTS_PER_MINUTE="1200")
    ledger = Ledger(own_service, unique("model"))
    with open_logger(own_service, ledger.model_name, max_batch_size=100) as mpm:
        # Each counts as an event; a minute's worth goes at once, and the rest at 20 a second.
        ledger.log(mpm, 1_300)
        mpm.end(120)
        assert mpm.get_logging_errors() == []
    assert "the limit is 1200 events a minute" in caplog.text
    ledger.expect_stored()


def test_away_at_the_start_what_was_logged_meanwhile_is_sent_once_it_is_there(own_service: Service) -> None:
    ledger = Ledger(own_service, unique("model"))
    with open_logger(own_service, ledger.model_name, max_batch_size=10) as mpm:
        ledger.log(mpm, 50)
        eventually(lambda: "the service cannot be reached at" in messages(mpm))
        own_service.start()
        mpm.end(60)
    ledger.expect_stored()


def test_a_service_that_is_back_when_the_logger_ends_is_not_missed(
    own_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first pause alone would outlast the end.
    monkeypatch.setattr("svc_mpm.client.backoff._FIRST_SECONDS", 1_000.0)
    monkeypatch.setattr("svc_mpm.client.backoff._LONGEST_SECONDS", 1_000.0)
    ledger = Ledger(own_service, unique("model"))
    with open_logger(own_service, ledger.model_name, max_batch_size=10) as mpm:
        ledger.log(mpm, 20)
        eventually(lambda: "events wait in memory" in messages(mpm))
        own_service.start()
        mpm.end(30)
    ledger.expect_stored()


def test_what_does_not_fit_while_the_service_is_away_is_dropped_counted_and_told(own_service: Service) -> None:
    model = unique("model")
    settings = {"SVC_MPM_QUEUE_BYTES": "100000"}
    with open_logger(own_service, model, settings, max_batch_size=10) as mpm:
        mpm.log_event("first")
        eventually(mpm.has_logging_error)
        for number in range(1_000):
            mpm.log_event(f"event {number}", {"text": "x" * 100})
        (dropped,) = [it for it in mpm.get_logging_errors() if "dropped" in it["message"]]
        assert "the queue is full (100,000 bytes, SVC_MPM_QUEUE_BYTES), while the service is away" in dropped["message"]
        count = int(dropped["message"].split("(")[-1].split(" times")[0].replace(",", ""))
        assert 0 < count < 1_000
        assert dropped["data_affected"][0] == f"event {1_000 - count}"
        own_service.start()
        mpm.end(60)
        assert mpm.get_logging_errors() == []
    expect_counts(own_service, model, events=1_001 - count)


def test_what_is_not_sent_when_the_end_has_waited_long_enough_is_told(own_service: Service) -> None:
    with open_logger(own_service, unique("model")) as mpm:
        for number in range(12):
            mpm.log_event(f"event {number}")
        mpm.end(timeout=0.2)
        assert "12 events were not sent within 0.2 s and are given up" in messages(mpm)


def test_an_event_larger_than_the_queue_is_told(service: Service) -> None:
    with open_logger(service, unique("model"), {"SVC_MPM_QUEUE_BYTES": "1000"}) as mpm:
        mpm.log_event("large", {"text": "x" * 2_000})
        assert "an event was dropped: the queue is full (1,000 bytes" in messages(mpm)


def test_a_wrong_key_is_one_clear_line_and_no_call_raises(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    with open_logger(service, unique("model"), api_key="wrong", max_batch_size=1) as mpm:
        eventually(mpm.has_logging_error)
        mpm.log_event("one")
        eventually(lambda: "events, which are given up" in messages(mpm))
        first, second = mpm.get_logging_errors()
    assert first["message"].startswith("This API key is not registered. Pass the key as api_key, or in SVC_API_KEY")
    assert second["message"].startswith(
        "the service refused events, which are given up: This API key is not registered."
    )
    assert second["data_affected"] == ["one"]
    assert len(caplog.records) == 2


def test_an_unknown_workspace_is_told_before_anything_is_logged(service: Service) -> None:
    with open_logger(service, unique("model"), workspace_name="nowhere") as mpm:
        eventually(mpm.has_logging_error)
        # Other tests may have made further ones.
        assert re.search(
            r"There is no workspace 'nowhere' that this key may use \(it may use: .*\bdefault\b.*\)", messages(mpm)
        )


@pytest.mark.parametrize(
    ("given", "settings", "said"),
    [
        ({"api_key": "wrong"}, {}, "This API key is not registered. Pass the key as api_key, or in SVC_API_KEY"),
        ({"workspace_name": "nowhere"}, {}, "There is no workspace 'nowhere' that this key may use"),
        ({}, {"SVC_API_KEY": ""}, "api_key: is missing, so nothing will be logged: pass it, or set SVC_API_KEY"),
        ({}, {"SVC_URL": "http://127.0.0.1:1"}, "the service cannot be reached at http://127.0.0.1:1: "),
        ({}, {"SVC_URL": "localhost"}, "SVC_URL: must be an address like http://127.0.0.1:8080, not 'localhost'"),
        ({"max_batch_size": 0}, {}, "max_batch_size: must be a number, 1 or more, not 0"),
        ({}, {"MPM_MAX_BATCH_SIZE": "many"}, "MPM_MAX_BATCH_SIZE: must be a number, 1 or more, not 'many'"),
        ({"max_batch_time": -1}, {}, "max_batch_time: must be a number, 0 or more, not -1"),
    ],
)
def test_an_initialization_that_is_to_raise_raises_what_to_do(
    service: Service, given: dict[str, Any], settings: dict[str, str], said: str
) -> None:
    with environment_of(service, **settings), pytest.raises(InitializationError) as raised:
        SvcMPM(model_name="model", **given, raise_on_error_during_init=True)
    assert str(raised.value).startswith(said)


def test_an_initialization_that_is_right_does_not_raise(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model, raise_on_error_during_init=True) as mpm:
        mpm.log_event("one")
        mpm.end()
    expect_counts(service, model, events=1)


def test_without_a_key_calls_do_nothing_and_the_log_says_why(service: Service) -> None:
    with open_logger(service, unique("model"), {"SVC_API_KEY": ""}) as mpm:
        mpm.log_event("one")
        mpm.end()
        assert messages(mpm).startswith("api_key: is missing, so nothing will be logged")


def test_an_answer_that_was_lost_costs_no_event_and_repeats_none(service: Service) -> None:
    def spoil(count: int, _body: bytes, forward: Any) -> Any:
        stored = forward()
        return (0, b"") if count <= 2 else (200, stored)

    model = unique("model")
    with in_between(service, spoil) as behind, open_logger(behind, model) as mpm:
        mpm.log_event("one", {"x": 1})
        mpm.end()
        # Its own repetition is no news.
        assert "already" not in messages(mpm)
    expect_counts(service, model, events=1)


@pytest.mark.parametrize(
    "answer",
    [
        (503, b'{"msg": "away"}'),
        (502, b"<html>"),
        (404, b"no backend"),
        (301, b""),
        (200, b"<html>please sign in</html>"),
        (500, b'{"msg": "a fault"}'),
    ],
)
def test_an_answer_that_is_none_is_waited_out(service: Service, answer: tuple[int, bytes]) -> None:
    model = unique("model")

    def spoil(count: int, _body: bytes, forward: Any) -> Any:
        return answer if count <= 2 else (200, forward())

    with in_between(service, spoil) as behind, open_logger(behind, model) as mpm:
        mpm.log_event("one")
        mpm.end()
        assert "wait in memory and are sent once it answers" in messages(mpm)
    expect_event(service, model, "one")


def test_retry_after_is_waited_for(service: Service) -> None:
    times: list[float] = []

    def spoil(count: int, _body: bytes, forward: Any) -> Any:
        times.append(time.monotonic())
        return (429, b'{"msg": "slowly"}', {"retry-after": "2"}) if count == 1 else (200, forward())

    model = unique("model")
    with in_between(service, spoil) as behind, open_logger(behind, model) as mpm:
        mpm.log_event("one")
        mpm.end()
    assert times[1] - times[0] >= 2
    expect_event(service, model, "one")


@pytest.mark.parametrize("status", [413, 500])
def test_what_the_service_cannot_bear_costs_no_neighbour(
    service: Service, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr("svc_mpm.client.backoff._LONGEST_SECONDS", 0.01)
    model = unique("model")

    def spoil(_count: int, body: bytes, forward: Any) -> Any:
        return (status, b'{"msg": "too much for me"}') if b"poison" in body else (200, forward())

    with in_between(service, spoil) as behind, open_logger(behind, model) as mpm:
        for name in ["a", "b", "poison", "c", "d"]:
            mpm.log_event(name)
        mpm.end()
        given_up = [it for it in mpm.get_logging_errors() if "given up" in it["message"]]
    assert [it["data_affected"] for it in given_up] == [["poison"]]
    assert "too much for me" in given_up[0]["message"]
    expect_counts(service, model, events=4)


def test_large_batches_are_sent_in_requests_that_the_service_takes(service: Service) -> None:
    model = unique("model")
    with open_logger(service, model, max_batch_size=50_000) as mpm:
        for number in range(600):
            mpm.log_event(f"event {number}", {"text": "x" * 60_000})
        mpm.end(120)
        assert mpm.get_logging_errors() == []
    expect_counts(service, model, events=600)
