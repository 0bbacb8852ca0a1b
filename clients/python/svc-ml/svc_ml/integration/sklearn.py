"""
scikit-learn: `autolog()` makes each `fit` a run.

The `fit` of every estimator is wrapped. Only the outermost one is logged: the estimators within a pipeline or a search are parts
of it, also those that joblib fits in threads. Processes that joblib starts have no wrapped `fit`.
"""

from __future__ import annotations

import contextvars
import functools
import pickle
import threading
from collections.abc import Iterator
from multiprocessing.dummy import DummyProcess
from typing import Any, Optional

from svc_ml.integration.recorder import Recorder, guarded, is_number, missing

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils import all_estimators
except ImportError as error:
    raise missing("sklearn", "scikit-learn") from error

_is_within: contextvars.ContextVar[bool] = contextvars.ContextVar("svc_ml_fit", default=False)
_active: Optional[_Autolog] = None
_originals: dict[tuple[type, str], Any] = {}


def autolog(
    experiment: Any = None, *, log_model: Optional[str] = None, training_score: bool = True, **options: Any
) -> None:
    """
    From now on each `fit` is a run, named after the estimator, with the parameters, the training score, the curves that the
    estimator kept, and the candidates of a search. A run stays open for the scores that follow it (`estimator.score`), until the
    next `fit`, `stop()` or the end of the script. With an experiment all goes into that one, and the number of the `fit` is the
    step.

    log_model: keeps each fitted estimator, pickled, under this name.
    training_score: calls `score` on the training data, which takes time on much data.
    options: of the Experiments that it makes.
    """
    global _active
    stop()
    _active = _Autolog(experiment, log_model, training_score, options)
    for kind in _estimators():
        for name in ("fit", "fit_transform", "fit_predict", "score"):
            if name in vars(kind) and callable(vars(kind)[name]):
                original = _originals[kind, name] = vars(kind)[name]
                setattr(kind, name, _watch_score(original) if name == "score" else _watch_fit(original))


def stop() -> None:
    """Logs no `fit` any more, and ends the run of the last one."""
    global _active
    for (kind, name), original in _originals.items():
        setattr(kind, name, original)
    _originals.clear()
    if _active is not None:
        _active.end()
        _active = None


class _Fit:
    """One `fit` on its way, so that those of several threads do not meet."""

    def __init__(self, recorder: Recorder, number: int) -> None:
        self.recorder = recorder
        self.number = number
        self.scores = 0
        self.fitted: Any = None


class _Autolog:
    def __init__(
        self, experiment: Any, log_model: Optional[str], training_score: bool, options: dict[str, Any]
    ) -> None:
        self._experiment = experiment
        self._log_model = log_model
        self._training_score = training_score
        self._options = options
        self._fits = 0
        self._last: Optional[_Fit] = None
        """The last one that is done: its run is open for scores."""
        self._lock = threading.Lock()

    @guarded
    def begin(self, estimator: Any) -> Optional[_Fit]:
        self.end()
        with self._lock:
            self._fits += 1
            number = self._fits
        name = type(estimator).__name__
        fit = _Fit(Recorder(self._experiment, {"experiment_name": name, **self._options}), number)
        experiment = fit.recorder.open()
        # Of a search or a pipeline they include the parameters of its parts, and the parts themselves.
        parameters = {name: it for name, it in estimator.get_params().items() if not isinstance(it, BaseEstimator)}
        experiment.log_parameters({"estimator": name, **parameters}, nested_support=False)
        return fit

    @guarded
    def finish(self, fit: _Fit, estimator: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        experiment, step = fit.recorder.open(), None if self._experiment is None else fit.number
        _log_kept(experiment, estimator)
        _log_search(experiment, estimator, step)
        if self._log_model is not None:
            experiment.log_model(self._log_model, pickle.dumps(estimator), "model.pkl", overwrite=True)
        x, y = (given[0] if given else named.get("X")), (given[1] if len(given) > 1 else named.get("y"))
        if self._training_score and y is not None and hasattr(estimator, "score"):
            experiment.log_metric("training_score", estimator.score(x, y), step=step)
        self.end()
        fit.fitted = estimator
        self._last = fit

    @guarded
    def scored(self, estimator: Any, value: Any) -> None:
        fit = self._last
        if fit is not None and estimator is fit.fitted and is_number(value):
            fit.scores += 1
            step = fit.scores if self._experiment is None else fit.number
            fit.recorder.open().log_metric("score", value, step=step)

    def end(self) -> None:
        with self._lock:
            last, self._last = self._last, None
        if last is not None:
            last.recorder.end()


def _log_kept(experiment: Any, estimator: Any) -> None:
    """The curves of estimators that train in rounds."""
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") and estimator.steps else estimator
    for field, name in (
        ("loss_curve_", "loss"),
        ("train_score_", "train_score"),
        ("validation_scores_", "validation_score"),
        ("validation_score_", "validation_score"),
    ):
        curve = getattr(last, field, None)
        if curve is None or is_number(curve):
            continue
        for step, value in enumerate(curve):
            experiment.log_metric(name, value, step=step, epoch=step)
    rounds = getattr(last, "n_iter_", None)
    if is_number(rounds):
        experiment.log_other("n_iter", rounds)


def _log_search(experiment: Any, estimator: Any, step: Optional[int]) -> None:
    results = getattr(estimator, "cv_results_", None)
    if not isinstance(results, dict):
        return
    rows = len(results["params"])
    for name in (it for it in results if it.startswith(("mean_test_", "std_test_", "mean_fit_"))):
        for candidate in range(rows):
            experiment.log_metric(f"search/{name}", results[name][candidate], step=candidate)
    experiment.log_table("search.csv", [{name: results[name][it] for name in results} for it in range(rows)])
    if hasattr(estimator, "best_params_"):
        experiment.log_parameters(dict(estimator.best_params_), prefix="best", nested_support=False)
    if hasattr(estimator, "best_score_"):
        experiment.log_metric("best_score", estimator.best_score_, step=step)


def _watch_fit(fit: Any) -> Any:
    @functools.wraps(fit)
    def watched(self: Any, *given: Any, **named: Any) -> Any:
        active = _active
        if active is None or _is_part() or not isinstance(self, BaseEstimator):
            return fit(self, *given, **named)
        before = _is_within.set(True)
        try:
            logged = active.begin(self)
            try:
                result = fit(self, *given, **named)
            except BaseException as error:
                if logged is not None:
                    logged.recorder.end(error)
                raise
            if logged is not None:
                active.finish(logged, self, given, named)
            return result
        finally:
            _is_within.reset(before)

    return watched


def _watch_score(score: Any) -> Any:
    @functools.wraps(score)
    def watched(self: Any, *given: Any, **named: Any) -> Any:
        active = _active
        if active is None or _is_part():
            return score(self, *given, **named)
        before = _is_within.set(True)
        try:
            value = score(self, *given, **named)
        finally:
            _is_within.reset(before)
        active.scored(self, value)
        return value

    return watched


def _is_part() -> bool:
    # joblib's threads know nothing of the thread that they work for.
    return _is_within.get() or isinstance(threading.current_thread(), DummyProcess)


def _estimators() -> Iterator[type]:
    """Every class that may bring a `fit` or a `score`: estimators, and what they inherit from."""
    seen: set[type] = set()
    for _, kind in all_estimators():
        for part in kind.__mro__:
            if part not in seen and part.__module__.startswith("sklearn."):
                seen.add(part)
                yield part
