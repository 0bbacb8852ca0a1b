"""A CSV file is streamed line by line; what happens to the service or to a line costs no other."""

from __future__ import annotations

import io
import logging
import os
import threading
import tracemalloc
from pathlib import Path

import pytest
from mpm_events import count_events, expect_counts, expect_event, messages, open_logger, read_event, unique

from conftest import Service, eventually
from svc_mpm.parts import read_parts


def write(folder: Path, text: str, name: str = "events.csv") -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def test_each_line_is_an_event(service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = unique("model")
    caplog.set_level(logging.INFO)
    text = (
        "timestamp,predictionId,feature_age,feature_country,prediction_value,label_value_truth\n"
        '1700000000123,a,42,"N,L",ok,true\n'
        "1700000000124,b,,None,5.0,\n"
    )
    with open_logger(service, model, model_version="2") as mpm:
        assert mpm.upload_dataset_csv(write(tmp_path, text), "EVENTS") is None
        assert mpm.get_logging_errors() == []
    assert "events.csv: all 2 lines are stored: 2 new, 0 there already, 0 rejected" in caplog.text
    expect_event(
        service,
        model,
        "a",
        timestamp=1_700_000_000_123,
        modelVersion="2",
        features={"age": ("integer", 42), "country": ("string", "N,L")},
        prediction={"value": ("string", "ok")},
        labels={"truth": ("boolean", True)},
    )
    expect_event(
        service,
        model,
        "b",
        features={"age": ("missing", None), "country": ("missing", None)},
        prediction={"value": ("float", 5)},
        labels={},
    )


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, {"None", "", "nan"}),
        ({"na_values": "-1,unknown"}, {"None", "", "nan", "-1", "unknown"}),
        ({"na_values": "-1,unknown", "keep_default_na_values": False}, {"-1", "unknown"}),
        ({"na_values": "-1", "keep_default_na_values": "false"}, {"-1"}),
        ({"na_values": "-1", "keep_default_na_values": "True"}, {"None", "", "nan", "-1"}),
    ],
)
def test_what_means_a_missing_value_can_be_chosen(
    service: Service, tmp_path: Path, given: dict[str, str | bool], missing: set[str]
) -> None:
    model = unique("model")
    texts = ["None", "", "nan", "-1", "unknown", "text"]
    lines = [f"{number},{text}" for number, text in enumerate(texts)]
    file = write(tmp_path, "\n".join(["predictionId,feature_x", *lines]))
    with open_logger(service, model) as mpm:
        mpm.upload_dataset_csv(file, "EVENTS", **given)  # type: ignore[arg-type]
        assert mpm.get_logging_errors() == []
    expect_counts(service, model, events=len(texts))

    def find_missing() -> set[str]:
        kinds = [read_event(service, model, str(it))["features"]["x"][0] for it in range(len(texts))]
        return {text for text, kind in zip(texts, kinds) if kind == "missing"}

    assert eventually(find_missing) == missing


def test_late_labels_go_to_their_events(service: Service, tmp_path: Path) -> None:
    model = unique("model")
    with open_logger(service, model) as mpm:
        mpm.log_event("a", {"x": 1})
        mpm.upload_dataset_csv(write(tmp_path, "predictionId,label_value_truth\na,1\n"), "LATE_LABELS")
        mpm.end()
        assert mpm.get_logging_errors() == []
    expect_event(service, model, "a", features={"x": ("integer", 1)}, labels={"truth": ("integer", 1)})


def test_training_events_are_a_data_set_of_their_own(service: Service, tmp_path: Path) -> None:
    model, data_set = unique("model"), unique("dataset")
    with open_logger(service, model) as mpm:
        mpm.upload_dataset_csv(write(tmp_path, "predictionId,feature_x\na,1\nb,2\n"), "TRAINING_EVENTS", data_set)
        assert mpm.get_logging_errors() == []
    expect_counts(service, data_set, trainingEvents=2)


def test_a_name_is_another_model_whose_records_are_added_to(service: Service, tmp_path: Path) -> None:
    name = unique("dataset")
    with open_logger(service, unique("model")) as mpm:
        mpm.upload_dataset_csv(write(tmp_path, "predictionId,feature_x\na,1\nb,2\n"), "EVENTS", name)
        mpm.upload_dataset_csv(write(tmp_path, "predictionId,feature_x\nb,3\nc,4\n", "more.csv"), "EVENTS", name)
        assert mpm.get_logging_errors() == []
    expect_counts(service, name, events=3)
    expect_event(service, name, "b", features={"x": ("integer", 2)})


def test_lines_without_ids_are_events_once_also_when_the_file_grew_meanwhile(service: Service, tmp_path: Path) -> None:
    model = unique("model")
    lines = ["feature_x,feature_pad", *(f"{it},{'x' * 3_000}" for it in range(1_000)), ""]
    with open_logger(service, model) as mpm:
        mpm.upload_dataset_csv(write(tmp_path, "\n".join(lines)), "EVENTS")
        mpm.upload_dataset_csv(write(tmp_path, "\n".join(lines)), "EVENTS")
        mpm.upload_dataset_csv(write(tmp_path, "\n".join([*lines[:-1], "one more,x", ""])), "EVENTS")
        assert mpm.get_logging_errors() == []
    expect_counts(service, model, events=1_001)


def test_a_bad_line_is_told_with_its_number_in_the_file(service: Service, tmp_path: Path) -> None:
    model = unique("model")
    lines = ["predictionId,feature_x", *(f"{it},{'x' * 3_000}" for it in range(1_000))]
    lines[3] = "2,1,surplus"
    lines[900] = "899"
    with open_logger(service, model) as mpm:
        mpm.upload_dataset_csv(write(tmp_path, "\n".join(lines)), "EVENTS")
        first, second = mpm.get_logging_errors()
    assert first["message"] == "events.csv: the service rejected a line: has 3 values, but there are 2 columns"
    assert (first["data_affected"], second["data_affected"]) == (["line 4"], ["line 901"])
    expect_counts(service, model, events=998)


def test_the_service_killed_in_the_middle_of_a_file_costs_no_line_and_repeats_none(
    own_service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own_service.start()
    model = unique("model")
    pipe = str(tmp_path / "events.csv")
    os.mkfifo(pipe)
    killed = threading.Event()
    written: list[int] = []

    def write_until_killed() -> None:
        # The file goes on until the service is gone, however fast it is; then come some parts more.
        with open(pipe, "w") as file:
            file.write("feature_number,feature_pad\n")
            left = 5_000
            number = 0
            while left > 0:
                file.write(f"{number},{'x' * 1_000}\n")
                number += 1
                left -= killed.is_set()
        written.append(number)

    with open_logger(own_service, model) as mpm:
        upload = threading.Thread(target=mpm.upload_dataset_csv, args=(pipe, "EVENTS"))
        writing = threading.Thread(target=write_until_killed, daemon=True)
        upload.start()
        writing.start()
        eventually(lambda: count_events(own_service, model)["events"] > 1_000)
        own_service.kill()
        killed.set()
        own_service.start()
        writing.join(120)
        upload.join(120)
        assert not upload.is_alive()
        assert "Trying again" in caplog.text
        assert mpm.get_logging_errors() == []
    expect_counts(own_service, model, 60, events=written[0])


def test_a_file_that_is_throttled_is_stored_whole(own_service: Service, tmp_path: Path) -> None:
    own_service.start(SVC_EVENTS_PER_MINUTE="6000")
    model = unique("model")
    file = write(tmp_path, "\n".join(["feature_x", *map(str, range(6_300))]))
    with open_logger(own_service, model) as mpm:
        mpm.upload_dataset_csv(file, "EVENTS")
        assert mpm.get_logging_errors() == []
    expect_counts(own_service, model, events=6_300)


def test_a_service_that_stays_away_is_given_up_with_the_line_where(own_service: Service, tmp_path: Path) -> None:
    with open_logger(own_service, "model", {"SVC_MPM_PATIENCE_SECONDS": "0.5"}) as mpm:
        mpm.upload_dataset_csv(write(tmp_path, "predictionId,feature_x\na,1\n"), "EVENTS")
        assert "events.csv: given up at line 2 of the file, after 0.5 s: the service cannot be reached" in messages(mpm)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("/nowhere.csv", "EVENTS"), "the file cannot be read: "),
        (("events.csv", "events"), "dataset_type: must be one of EVENTS, LATE_LABELS, TRAINING_EVENTS, not 'events'"),
        (("events.csv", "TRAINING_EVENTS"), "dataset_name: is missing: TRAINING_EVENTS need one"),
        (("events.csv", "EVENTS", None, ["-1"]), "na_values: expected a string with commas between the values"),
        (("events.csv", "EVENTS", None, None, "no"), "keep_default_na_values: expected true or false, not 'no'"),
        (("empty.csv", "EVENTS"), "file: is empty; its first line names the columns"),
        (("header.csv", "EVENTS"), "file: line 1 is no usable list of columns"),
    ],
)
def test_an_upload_that_cannot_be_is_one_clear_line(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "predictionId,feature_x\na,1\n")
    write(tmp_path, "", "empty.csv")
    write(tmp_path, "age,income\n1,2\n", "header.csv")
    with open_logger(service, unique("model")) as mpm:
        mpm.upload_dataset_csv(*arguments)  # type: ignore[arg-type]
        (error,) = mpm.get_logging_errors()
    assert error["message"].startswith(f"upload_dataset_csv: {said}")


def test_a_large_file_takes_the_memory_of_a_part() -> None:
    class Endless(io.RawIOBase):
        """64 MiB of lines."""

        left = 64 * 1024

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            self.left -= 1
            buffer[:1024] = b"x" * 1023 + b"\n"
            return 1024 if self.left > 0 else 0

    tracemalloc.start()
    try:
        lines = sum(part.end_line - part.first_line for part in read_parts(io.BufferedReader(Endless(), 1024)))
        assert lines == 64 * 1024 - 2
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (b"h\na\nb\nc\n", [(b"h\na\nb\n", 2, 4), (b"h\nc\n", 4, 5)]),
        (b"h\na\nb", [(b"h\na\nb", 2, 4)]),
        (b"h\na\r\nb\r\n", [(b"h\na\r\nb\r\n", 2, 4)]),
        (b'h\n"a\nb\nc",1\nd\n', [(b'h\n"a\nb\nc",1\n', 2, 5), (b"h\nd\n", 5, 6)]),
        (b'"h\nh"\na\n\nb\n', [(b'"h\nh"\na\n\nb\n', 3, 6)]),
        (b"h\n", [(b"h\n", 2, 2)]),
        (b"h", [(b"h\n", 2, 2)]),
        (b"", [(b"", 1, 1)]),
    ],
)
def test_a_part_holds_whole_records_under_the_header(text: bytes, parts: list[tuple[bytes, int, int]]) -> None:
    found = [(it.content, it.first_line, it.end_line) for it in read_parts(io.BytesIO(text), part_bytes=4)]
    assert found == parts


def test_a_quote_that_is_never_closed_ends_no_part_too_late() -> None:
    text = b'h\n"open\n' + b"a\n" * 5_000
    parts = list(read_parts(io.BytesIO(text), part_bytes=1))
    assert b"".join(it.content.removeprefix(b"h\n") for it in parts) == text[2:]
    assert max(it.end_line - it.first_line for it in parts) == 1_001
