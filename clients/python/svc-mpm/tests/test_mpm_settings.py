"""Settings: the argument first, then the environment, then a default."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from svc_mpm.settings import Settings, read_settings


def read(environment: dict[str, str], **given: object) -> Settings:
    arguments: dict[str, object] = dict.fromkeys(
        ["api_key", "workspace_name", "model_name", "model_version", "max_batch_size", "max_batch_time"]
    )

    def tell(fault: str) -> None:
        raise AssertionError(fault)

    with mock.patch.dict("os.environ", environment, clear=True):
        return read_settings(**{**arguments, **given}, tell=tell)  # type: ignore[arg-type]


def test_the_defaults_are_1000_events_2_seconds_and_300_seconds_per_request() -> None:
    it = read({})
    assert (it.batch_size, it.batch_seconds, it.request_seconds) == (1_000, 2, 300)
    assert it.url == "http://127.0.0.1:8080"


def test_the_environment_is_read() -> None:
    it = read(
        {
            "SVC_URL": "https://svc.example.com/",
            "SVC_API_KEY": "key",
            "SVC_WORKSPACE": "team",
            "SVC_MPM_MODEL_NAME": "fraud",
            "SVC_MPM_MODEL_VERSION": "3",
            "MPM_MAX_BATCH_SIZE": "200",
            "MPM_MAX_BATCH_TIME": "5",
        }
    )
    assert it.url == "https://svc.example.com"
    assert (it.api_key, it.workspace_name, it.model_name, it.model_version) == ("key", "team", "fraud", "3")
    assert (it.batch_size, it.batch_seconds) == (200, 5)


def test_an_argument_wins_over_the_environment() -> None:
    it = read({"SVC_API_KEY": "other", "MPM_MAX_BATCH_SIZE": "200"}, api_key="key", max_batch_size=7, max_batch_time=3)
    assert (it.api_key, it.batch_size, it.batch_seconds) == ("key", 7, 3)


@pytest.mark.parametrize(("size", "seconds"), [("1", 1), ("5000", 2)])
def test_the_variable_that_the_specification_names_for_both_shortens_the_time_and_never_lengthens_it(
    size: str, seconds: float
) -> None:
    it = read({"MPM_MAX_BATCH_SIZE": size})
    assert (it.batch_size, it.batch_seconds) == (int(size), seconds)


def test_events_are_kept_on_disk_only_when_a_folder_is_named() -> None:
    assert read({}).spool_directory is None
    it = read({"SVC_MPM_SPOOL_DIRECTORY": "~/events", "SVC_MPM_SPOOL_BYTES": "1000", "HOME": "/home/somebody"})
    assert (it.spool_directory, it.spool_bytes) == (Path("/home/somebody/events"), 1_000)
    assert read({"SVC_MPM_SPOOL_DIRECTORY": "/other"}, spool_directory="/events").spool_directory == Path("/events")
