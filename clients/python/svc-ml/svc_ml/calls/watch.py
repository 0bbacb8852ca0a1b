"""Histograms of the weights and gradients of a model of PyTorch while it is trained, by hooks of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from svc_ml.fault import SvcError

What = Literal["gradients", "parameters", "all"]
LogHistogram = Callable[[Any, str, int], Any]
"""Takes values, a name and a step."""


def watch_model(model: Any, log: What, log_freq: int, log_histogram: LogHistogram) -> Callable[[], None]:
    """
    Logs `gradients/<parameter>` at every `log_freq`-th backward pass and `parameters/<parameter>` at every `log_freq`-th forward pass
    in training mode, each at the number of passes before it. Returns a call that ends it.

    Raises SvcError.
    """
    if not callable(getattr(model, "named_parameters", None)) or not hasattr(model, "register_forward_hook"):
        raise SvcError(f"model is a {type(model).__name__}: expected a torch.nn.Module.")
    if log not in ("gradients", "parameters", "all"):
        raise SvcError(f"log is {log!r}: expected 'gradients', 'parameters' or 'all'.")
    if log_freq < 1:
        raise SvcError(f"log_freq is {log_freq}: expected 1 or more.")
    hooks = []
    if log in ("gradients", "all"):
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                hooks.append(parameter.register_hook(_counted(f"gradients/{name}", log_freq, log_histogram)))
    if log in ("parameters", "all"):
        passes = 0

        def after_forward(module: Any, *_: Any) -> None:
            nonlocal passes
            if not module.training:
                return
            if passes % log_freq == 0:
                for name, parameter in module.named_parameters():
                    log_histogram(parameter, f"parameters/{name}", passes)
            passes += 1

        hooks.append(model.register_forward_hook(after_forward))

    def end() -> None:
        for hook in hooks:
            hook.remove()

    return end


def _counted(name: str, log_freq: int, log_histogram: LogHistogram) -> Callable[[Any], None]:
    passes = 0

    def after_backward(gradient: Any) -> None:
        nonlocal passes
        if passes % log_freq == 0:
            log_histogram(gradient, name, passes)
        passes += 1

    return after_backward
