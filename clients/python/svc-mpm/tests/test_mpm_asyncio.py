"""In asyncio mode: a real server on a loop logs what it predicts, and the loop is never held up."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pandas
import pytest
from mpm_events import environment_of, expect_counts, expect_event, messages, open_logger, unique

from conftest import Service
from svc_mpm import InitializationError, SvcMPM


def open_asyncio_logger(service: Service, model: str, settings: dict[str, str] | None = None, **given: Any) -> SvcMPM:
    with environment_of(service, **(settings or {})):
        return SvcMPM(model_name=model, asyncio=True, **{"workspace_name": service.workspace, **given})


@asynccontextmanager
async def inference_server(mpm: SvcMPM) -> AsyncIterator[str]:
    """Doubles what it is sent, one line of JSON a connection."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(await reader.readline())
        prediction = asked["x"] * 2
        await mpm.log_event(asked["id"], {"x": asked["x"]}, output_value=prediction)
        writer.write(json.dumps({"y": prediction}).encode() + b"\n")
        await writer.drain()
        writer.close()

    await mpm.connect()
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
    await mpm.end()


async def ask(port: str, name: str, x: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(json.dumps({"id": name, "x": x}).encode() + b"\n")
    answer = json.loads(await reader.readline())
    writer.close()
    return int(answer["y"])


def test_an_asyncio_server_logs_each_prediction(service: Service) -> None:
    model = unique("model")
    mpm = open_asyncio_logger(service, model, max_batch_size=20)

    async def main() -> None:
        async with inference_server(mpm) as port:
            answers = await asyncio.gather(*(ask(port, f"event {it}", it) for it in range(100)))
        assert answers == [2 * it for it in range(100)]

    asyncio.run(main())
    assert mpm.get_logging_errors() == []
    expect_counts(service, model, events=100)
    expect_event(service, model, "event 21", features={"x": ("integer", 21)}, prediction={"value": ("integer", 42)})


def test_a_service_that_hangs_holds_up_no_loop() -> None:
    """A peer that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        service = Service.__new__(Service)
        service.__dict__.update(
            url=f"http://127.0.0.1:{hanging.getsockname()[1]}", api_key="a key", workspace="default"
        )
        mpm = open_asyncio_logger(service, "model", {"SVC_MPM_REQUEST_SECONDS": "3600"}, max_batch_size=1)

        async def main() -> None:
            turns = 0

            async def turn() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            turning = asyncio.create_task(turn())
            await mpm.connect()
            for number in range(100):
                await mpm.log_event(f"event {number}")
            before = turns
            await mpm.end(timeout=1)
            assert turns > before
            turning.cancel()

        asyncio.run(main())
        assert "100 events were not sent within 1 s and are given up" in messages(mpm)


@pytest.mark.parametrize("way", ["awaited", "forgotten", "task", "gathered"])
def test_what_log_event_answers_may_be_awaited_or_not(service: Service, way: str, recwarn: Any) -> None:
    model = unique("model")
    mpm = open_asyncio_logger(service, model)

    async def main() -> None:
        await mpm.connect()
        answer = mpm.log_event("one")
        assert answer is not None
        if way == "awaited":
            assert await answer is None
        elif way == "task":
            await asyncio.create_task(answer)  # type: ignore[arg-type]
        elif way == "gathered":
            await asyncio.gather(answer, mpm.log_label("one", labels={"value": 1}))
        await mpm.end()

    asyncio.run(main())
    assert mpm.get_logging_errors() == []
    assert [it for it in recwarn if it.category is RuntimeWarning] == []
    expect_counts(service, model, events=1, labels=1 if way == "gathered" else 0)


def test_a_bad_argument_is_told_and_not_raised_when_it_is_awaited(service: Service) -> None:
    mpm = open_asyncio_logger(service, unique("model"))

    async def main() -> None:
        await mpm.connect()
        await mpm.log_event("bad", {"x": []})
        await mpm.log_label("bad")
        await mpm.end()

    asyncio.run(main())
    assert "log_event: input_features['x']: " in messages(mpm)


def test_who_awaits_waits_for_room_in_a_full_queue(service: Service) -> None:
    model = unique("model")
    mpm = open_asyncio_logger(
        service, model, {"SVC_MPM_QUEUE_BYTES": "20000", "SVC_MPM_BLOCK_SECONDS": "60"}, max_batch_size=10
    )

    async def main() -> None:
        await mpm.connect()
        await asyncio.gather(*(mpm.log_event(f"event {it}", {"text": "x" * 1_000}) for it in range(300)))
        await mpm.end()

    asyncio.run(main())
    assert mpm.get_logging_errors() == []
    expect_counts(service, model, events=300)


def test_an_event_that_waits_for_room_and_is_forgotten_is_told_as_dropped(service: Service) -> None:
    mpm = open_asyncio_logger(service, unique("model"), {"SVC_MPM_QUEUE_BYTES": "1500"})

    async def main() -> None:
        await mpm.connect()
        mpm.log_event("fits", {"text": "x" * 1_000})
        mpm.log_event("forgotten", {"text": "x" * 1_000})
        await mpm.end()

    asyncio.run(main())
    (error,) = mpm.get_logging_errors()
    assert (error["message"][:24], error["data_affected"]) == ("an event was dropped: th", ["forgotten"])


def test_connect_raises_what_has_to_be_asked_of_the_service(service: Service) -> None:
    mpm = open_asyncio_logger(service, "model", api_key="wrong", raise_on_error_during_init=True)

    async def main() -> None:
        with pytest.raises(InitializationError, match="This API key is not registered"):
            await mpm.connect()

    asyncio.run(main())


def test_without_connect_events_wait_and_it_is_told(service: Service) -> None:
    model = unique("model")
    mpm = open_asyncio_logger(service, model, max_batch_size=1)

    async def main() -> None:
        await mpm.log_event("one")
        assert messages(mpm) == "connect was not awaited: events wait in memory until it is"
        await mpm.end()

    asyncio.run(main())
    expect_counts(service, model, events=1)


def test_a_data_frame_and_a_file_are_awaited(service: Service, tmp_path: Any) -> None:
    model = unique("model")
    mpm = open_asyncio_logger(service, model)
    file = tmp_path / "events.csv"
    file.write_text("predictionId,feature_x\nfrom the file,1\n")

    async def main() -> None:
        await mpm.connect()
        result = await mpm.log_dataframe(pandas.DataFrame({"id": ["a", "b"], "x": [1, 2]}), "id", ["x"])
        assert result.logged == 2
        await mpm.upload_dataset_csv(str(file), "EVENTS")
        await mpm.end()

    asyncio.run(main())
    assert mpm.get_logging_errors() == []
    expect_counts(service, model, events=3)


def test_in_sync_mode_calls_answer_nothing_to_await(service: Service) -> None:
    with open_logger(service, unique("model")) as mpm:
        assert mpm.connect() is None
        assert mpm.log_event("one") is None
        assert mpm.log_label("one", labels={"value": 1}) is None
        assert mpm.end() is None
