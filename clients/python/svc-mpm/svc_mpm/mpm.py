"""The logger that a model server holds."""

from __future__ import annotations

import functools
import os
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .awaitable import DONE, in_thread
from .client.fault import logger
from .client.service import Rejected, Unavailable
from .dataframe import Columns, LogEventsResult, RowFault, log_rows
from .dataset import Upload, to_query
from .delivery import Delivery
from .errors import ErrorLog, InitializationError
from .event import InvalidEvent, Item, make_event, make_labels
from .intake import Intake
from .process import open_loggers
from .queue import EventQueue, Queue
from .sender import Sender
from .settings import read_settings
from .transport import Transport

if TYPE_CHECKING:
    import pandas
    import polars

    from .leftovers import Leftovers

END_SECONDS = 30.0
_BATCH_BYTES = 4 * 1024 * 1024
_DATAFRAME_BLOCK_SECONDS = 60.0
"""How long a data frame waits for room before it goes on without: nobody's answer depends on it."""

_F = TypeVar("_F", bound=Callable[..., Any])


def _never_raises(method: _F) -> _F:
    """What is wrong with a call is noted; the caller's prediction goes on."""

    @functools.wraps(method)
    def call(self: SvcMPM, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except InvalidEvent as error:
            given = kwargs.get("prediction_id", args[0] if args else None)
            self._errors.add(f"{method.__name__}: {error}", [given] if isinstance(given, str) else [])
        except Exception as error:
            self._errors.add(f"{method.__name__} failed: {error!r}", error=error)
        return self._done

    return cast(_F, call)


class SvcMPM:
    """
    Logs the events of one deployed model.

    A call writes the event into a queue in memory and returns; a thread sends batches. No call raises, or waits for the
    service: what is wrong stands in the log, and is read with `get_logging_errors`.

    With a `spool_directory` events are kept there until they are sent: those of a process that was killed are sent by the next
    one that opens the directory.

    With `asyncio=True` the calls return awaitables: `connect` is awaited at the server's start, `end` at its end. See
    the README for the settings that come from the environment.

    Raises InitializationError, and only with `raise_on_error_during_init`: in asyncio mode it is `connect` that raises
    what has to be asked of the service.
    """

    def __init__(
        self,
        api_key: str | None = None,
        workspace_name: str | None = None,
        model_name: str | None = None,
        model_version: str | None = None,
        disabled: bool | None = None,
        asyncio: bool = False,
        max_batch_size: int | None = None,
        max_batch_time: int | None = None,
        raise_on_error_during_init: bool = False,
        *,
        spool_directory: str | os.PathLike[str] | None = None,
    ) -> None:
        self._errors = ErrorLog()
        self._is_asyncio = bool(asyncio)
        self._done = DONE if self._is_asyncio else None
        self._raises = bool(raise_on_error_during_init)
        faults: list[str] = []
        self._settings = read_settings(
            api_key,
            workspace_name,
            model_name,
            model_version,
            max_batch_size,
            max_batch_time,
            faults.append,
            spool_directory,
        )
        self._is_off = bool(disabled)
        if self._settings.api_key is None:
            faults.append(
                "api_key: is missing, so nothing will be logged: pass it, or set SVC_API_KEY (the service shows one "
                "when it is first started)"
            )
        if not self._is_off:
            self._is_off = self._settings.api_key is None
            self._fail(faults)
        self._open()
        self._intake.is_connected = not self._is_asyncio
        if self._is_off:
            return
        open_loggers.add(self)
        if self._is_asyncio:
            return
        if self._raises:
            self._check()
        else:
            self._sender.start(checks=True)
        self._send_leftovers()

    def connect(self) -> Awaitable[None] | None:
        """
        In asyncio mode to be awaited at the server's start. Raises InitializationError if the constructor was to
        raise.
        """
        if not self._is_asyncio:
            return None
        if self._is_off:
            return DONE
        self._intake.is_connected = True
        return in_thread(self._connect)

    def end(self, timeout: float | None = None) -> Awaitable[None] | None:
        """
        Sends what was logged, and closes: nothing can be logged afterwards.

        Waits for `timeout` seconds at most, 30 when it is unset. What is left then is given up, counted and told.
        """
        seconds = END_SECONDS if timeout is None else max(0.0, float(timeout))
        if self._intake.is_closed or self._is_off:
            return self._done
        self._intake.is_closed = True
        open_loggers.discard(self)
        if self._is_asyncio:
            self._queue.close()
            return in_thread(lambda: self._end(seconds))
        self._end(seconds)
        return None

    def join(self, timeout: float | None = None) -> Awaitable[None] | None:
        """Deprecated: use `end`."""
        _deprecate("join is deprecated: use end")
        return self.end(timeout)

    def get_logging_errors(self, clear: bool = True) -> list[dict[str, Any]]:
        """
        What went wrong, each as `message`, `logger_name`, `timestamp` (ISO 8601, UTC), and where there are some
        `data_affected` (prediction ids, or lines of a file, the first 100) and `traceback`. They are forgotten then,
        unless `clear` is false.
        """
        return self._errors.read(clear)

    def has_logging_error(self) -> bool:
        return bool(self._errors)

    @_never_raises
    def log_event(
        self,
        prediction_id: str,
        input_features: Mapping[str, Any] | None = None,
        output_value: int | float | bool | str | None = None,
        output_probability: float | None = None,
        output_features: Mapping[str, Any] | None = None,
        labels: Mapping[str, Any] | None = None,
        timestamp: float | None = None,
    ) -> Awaitable[None] | None:
        """
        Logs what the model was asked and what it answered.

        The values are integers, floats, booleans and strings; None and NaN are missing ones. `output_value` and
        `output_probability` (from 0 to 1) are the output features `value` and `probability`. `timestamp` is in seconds
        since the Unix epoch (UTC), now when it is None. The first event of a `prediction_id` is kept for ever.
        """
        if self._is_off:
            return self._done
        return self._log(
            make_event(
                prediction_id, input_features, output_value, output_probability, output_features, labels, timestamp
            )
        )

    @_never_raises
    def log_label(
        self,
        prediction_id: str,
        label: int | float | bool | str | None = None,
        labels: Mapping[str, Any] | None = None,
        timestamp: float | None = None,
    ) -> Awaitable[None] | None:
        """
        Logs what turned out to be true of a prediction, before or after its event. The first labels of a
        `prediction_id` are kept. `label` is deprecated: it is the label `value`.
        """
        if label is not None:
            _deprecate("label is deprecated: use labels={'value': ...}")
        if self._is_off:
            return self._done
        return self._log(make_labels(prediction_id, label, labels, timestamp))

    def log_dataframe(
        self,
        dataframe: pandas.DataFrame | polars.DataFrame,
        prediction_id_column: str,
        feature_columns: Sequence[str] | None = None,
        output_value_column: str | None = None,
        output_probability_column: str | None = None,
        output_features_columns: Sequence[str] | None = None,
        labels_columns: Sequence[str] | None = None,
        timestamp_column: str | None = None,
    ) -> LogEventsResult | Awaitable[LogEventsResult]:
        """
        Logs each row as an event. `timestamp_column` holds seconds since the Unix epoch (UTC). The columns
        `output_value_column` and `output_probability_column` are deprecated: use `output_features_columns`.

        Answers how many rows were logged, and why others were not; in asyncio mode, when it is awaited.
        """
        for name, given in [
            ("output_value_column", output_value_column),
            ("output_probability_column", output_probability_column),
        ]:
            if given is not None:
                _deprecate(f"{name} is deprecated: use output_features_columns")
        columns = Columns(
            prediction_id=prediction_id_column,
            features=feature_columns,
            output_value=output_value_column,
            output_probability=output_probability_column,
            output_features=output_features_columns,
            labels=labels_columns,
            timestamp=timestamp_column,
        )

        def work() -> LogEventsResult:
            return self._log_rows(dataframe, columns)

        return in_thread(work) if self._is_asyncio else work()

    def upload_dataset_csv(
        self,
        file_path: str,
        dataset_type: str,
        dataset_name: str | None = None,
        na_values: str | None = None,
        keep_default_na_values: bool | str | None = None,
    ) -> Awaitable[None] | None:
        """
        Uploads a CSV file, each line as an event, and returns when it is stored; in asyncio mode that is awaited.

        `dataset_type` is `EVENTS`, `LATE_LABELS` or `TRAINING_EVENTS`. With a `dataset_name` the lines go to the model
        of that name, which is made if there is none; training events need one. `na_values` are further strings that
        mean a missing value, with commas between them; with `keep_default_na_values=False` they are the only ones.

        An outage is waited for, and a file may be uploaded again: what is stored of it stays as it is.
        """

        def work() -> None:
            self._upload(file_path, dataset_type, dataset_name, na_values, keep_default_na_values)

        if self._is_off:
            return self._done
        if self._is_asyncio:
            return in_thread(work)
        work()
        return None

    def _open(self) -> None:
        """What a process has of its own: a fork makes it anew."""
        settings = self._settings
        wake = threading.Event()
        self._queue: Queue
        self._leftovers: Leftovers | None = None
        root = settings.spool_directory
        if root is None:
            self._queue = EventQueue(
                settings.queue_bytes, settings.batch_size, _BATCH_BYTES, settings.batch_seconds, wake.set
            )
        else:
            # Here, for those who need none: files are locked in a way that Windows does not have.
            from .leftovers import Leftovers
            from .spooled_queue import SpooledQueue

            self._queue = SpooledQueue(settings, root, _BATCH_BYTES, self._errors, wake.set)
            self._leftovers = Leftovers(settings, root, _BATCH_BYTES, self._errors)
        transport = Transport(settings.url, settings.api_key or "", settings.request_seconds)
        self._delivery = Delivery(settings, transport, self._queue, self._errors)
        self._sender = Sender(self._queue, self._delivery, self._errors, wake)

        self._intake = Intake(settings, self._queue, self._sender, self._errors, open_loggers.watch_forked_process)

    def _after_fork(self) -> None:
        """In the child: what was logged before is its parent's to send."""
        was_connected = self._intake.is_connected
        self._queue.after_fork_in_child()
        if self._leftovers is not None:
            self._leftovers.after_fork_in_child()
        self._errors = ErrorLog()
        self._open()
        self._intake.is_connected = was_connected

    def _fail(self, faults: list[str]) -> None:
        if faults and self._raises:
            raise InitializationError("; ".join(faults))
        for fault in faults:
            self._errors.add(fault)

    def _check(self) -> None:
        try:
            self._delivery.check()
        except (Unavailable, Rejected) as error:
            self._is_off = True
            raise InitializationError(str(error)) from error

    def _connect(self) -> None:
        if self._raises:
            self._check()
        self._sender.start(checks=not self._raises)
        self._send_leftovers()

    def _send_leftovers(self) -> None:
        if self._leftovers is not None:
            self._leftovers.start()

    def _end(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        left = self._sender.end(seconds)
        if self._leftovers is not None:
            self._leftovers.end(max(0.0, deadline - time.monotonic()))
        kept = self._queue.count_on_disk()
        if kept:
            self._errors.add(
                f"{kept} events were not sent within {seconds:g} s. They stay in {self._settings.spool_directory}, and "
                "the next SvcMPM with this spool_directory sends them"
            )
        left -= kept
        if left > 0:
            self._errors.add(
                f"{left} events were not sent within {seconds:g} s and are given up: the service at "
                f"{self._settings.url} did not take them in"
            )

    def _log(self, item: Item) -> Awaitable[None] | None:
        if self._is_asyncio:
            return self._intake.put_or_wait(item)
        self._intake.put(item)
        return None

    def _log_rows(self, dataframe: pandas.DataFrame | polars.DataFrame, columns: Columns) -> LogEventsResult:
        """Waits for room once in vain, and not again."""
        if self._is_off:
            return LogEventsResult()
        wait = _DATAFRAME_BLOCK_SECONDS

        def put(item: Item) -> str | None:
            nonlocal wait
            fault = self._intake.try_put(item, wait, waits_while_away=True)
            if fault is not None:
                wait = 0
            return fault

        try:
            result = log_rows(dataframe, columns, put)
        except InvalidEvent as error:
            self._errors.add(f"log_dataframe: {error}")
            return LogEventsResult(faults=[RowFault(0, None, str(error))])
        except Exception as error:
            self._errors.add(f"log_dataframe failed: {error!r}", error=error)
            return LogEventsResult(faults=[RowFault(0, None, repr(error))])
        for fault in result.faults:
            affected = fault.prediction_id or f"row {fault.row}"
            self._errors.add(f"log_dataframe: {fault.message}", [affected])
        if result.rejected > len(result.faults):
            self._errors.add("log_dataframe: further rows were rejected", count=result.rejected - len(result.faults))
        return result

    def _upload(
        self,
        file_path: str,
        dataset_type: str,
        dataset_name: str | None,
        na_values: str | None,
        keep_default_na_values: bool | str | None,
    ) -> None:
        try:
            if self._intake.is_closed:
                raise InvalidEvent("the logger has ended: nothing can be uploaded after end")
            settings = self._settings
            query = to_query(settings, dataset_type, dataset_name, na_values, keep_default_na_values)
            # A connection of its own: the sender's is in use.
            transport = Transport(settings.url, settings.api_key or "", settings.request_seconds)
            query["workspaceName"] = Delivery(settings, transport, self._queue, self._errors).find_workspace()
            Upload(transport, self._errors, settings.patience_seconds).send(file_path, dataset_type, query)
        except (InvalidEvent, Rejected, Unavailable) as error:
            self._errors.add(f"upload_dataset_csv: {error}", [str(file_path)])
        except OSError as error:
            self._errors.add(f"upload_dataset_csv: the file cannot be read: {error}", [str(file_path)])
        except Exception as error:
            self._errors.add(f"upload_dataset_csv failed: {error!r}", [str(file_path)], error=error)


def _deprecate(message: str) -> None:
    # Who makes errors of warnings is told, and yet no call raises.
    try:
        warnings.warn(message, DeprecationWarning, stacklevel=4)
    except DeprecationWarning:
        logger.warning("%s", message)
