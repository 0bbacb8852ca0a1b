"""What calls answer in asyncio mode."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class Logged(Coroutine[Any, Any, None]):
    """
    Something that is done already, to be awaited or not. `asyncio.create_task` and `gather` take it as well, and
    forgetting it is no fault, as it would be of a coroutine function.
    """

    def send(self, value: Any) -> Any:
        raise StopIteration

    def throw(self, *error: Any) -> Any:
        raise error[0]

    def close(self) -> None:
        pass

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield


DONE = Logged()


class Waiting(Logged):
    """Something that is done by awaiting it. `on_forgotten` is called when nobody did."""

    def __init__(self, work: Coroutine[Any, Any, None], on_forgotten: Callable[[], None]) -> None:
        self._work = work
        self._on_forgotten: Callable[[], None] | None = on_forgotten

    def send(self, value: Any) -> Any:
        self._on_forgotten = None
        return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        self._on_forgotten = None
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        self._on_forgotten = None
        return self._work.__await__()

    def __del__(self) -> None:
        if self._on_forgotten is not None:
            self._work.close()
            self._on_forgotten()


def in_thread(work: Callable[[], T]) -> Awaitable[T]:
    """
    Does blocking work beside the running loop; it happens whether the answer is awaited or not. The thread is a daemon:
    one of the loop's own executor would keep the program from ending.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(value: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def run() -> None:
        value, fault = None, None
        try:
            value = work()
        except BaseException as error:
            fault = error
        try:
            loop.call_soon_threadsafe(finish, value, fault)
        except RuntimeError:
            # The loop was closed meanwhile: nobody waits any more.
            return

    threading.Thread(target=run, name="svc-mpm-call", daemon=True).start()
    return future
