"""
The blocks of docs/integrations.md for the frameworks that are too large for CI, where these are left out. They run with

    pip install -r clients/python/svc-ml/tests/large-frameworks.txt
    pytest clients/python/svc-ml/tests/test_ml_large_frameworks.py
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import pytest
from test_ml_integrations import block, ended, files_of, key, made_data, points_of_contexts, same, same_points

from conftest import Service, eventually
from ml_ledger import read, read_points, read_values
from svc_ml import Experiment

__all__ = ["key"]

torch = pytest.importorskip("torch")


def test_lightning(service: Service, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lightning = pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    seen: list[tuple[int, int, float]] = []
    validated: list[tuple[int, float]] = []

    class Line(lightning.LightningModule):
        def __init__(self, rate: float, fails: bool = False) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch: Any, _index: int) -> Any:
            loss = torch.nn.functional.mse_loss(self.layer(batch[0]), 3 * batch[0])
            self.log("loss", loss)
            seen.append((self.global_step, self.current_epoch, float(loss.detach())))
            if self.hparams.fails:
                raise RuntimeError("no more")
            return loss

        def validation_step(self, batch: Any, _index: int) -> None:
            loss = torch.nn.functional.mse_loss(self.layer(batch[0]), 3 * batch[0])
            self.log("valid_loss", loss)
            if not self.trainer.sanity_checking:
                validated.append((self.global_step - 1, float(loss)))

        test_step = validation_step

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=self.hparams.rate)

    data = torch.utils.data.TensorDataset(torch.rand(12, 1))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    whole = torch.utils.data.DataLoader(data, batch_size=12)
    scope: dict[str, Any] = {"model": Line(0.1), "train_loader": loader, "valid_loader": whole}
    exec(block("PyTorch Lightning"), scope)
    # The run is open still.
    fitted = list(validated)
    scope["trainer"].test(scope["model"], whole)
    scope["logger"].end()
    ended(service, key)
    assert len(seen) == 6
    assert eventually(lambda: read_points(service, key, "loss") == [(step, value) for step, _, value in seen])
    answer = read(service, key, "metrics/get-metric", metricName="loss")["metrics"]
    assert {it["step"]: it["epoch"] for it in answer} == {step: epoch for step, epoch, _ in seen}
    assert eventually(lambda: read_points(service, key, "valid_loss")[:2] == fitted)
    assert eventually(lambda: read_values(service, key, "parameters")["rate"] == "0.1")
    # Lightning deletes the first when it writes the second.
    assert eventually(lambda: files_of(service, key, "model-element") == {"epoch=0-step=3.ckpt", "epoch=1-step=6.ckpt"})

    failing = uuid.uuid4().hex
    monkeypatch.setenv("SVC_EXPERIMENT_KEY", failing)
    with pytest.raises(RuntimeError, match="no more"):
        exec(block("PyTorch Lightning"), {**scope, "model": Line(0.1, fails=True)})
    ended(service, failing, crashed=True)


def test_transformers(service: Service, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    size = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(**size, intermediate_size=32, max_position_embeddings=16)
    model = transformers.BertForSequenceClassification(config)
    rows = [{"input_ids": [1 + at % 40] * 8, "attention_mask": [1] * 8, "labels": at % 2} for at in range(48)]
    made: list[Any] = []
    original = transformers.Trainer.__init__
    monkeypatch.setattr(
        transformers.Trainer,
        "__init__",
        lambda self, *given, **named: (made.append(self), original(self, *given, **named))[1],
    )
    exec(block("Hugging Face"), {"model": model, "train": rows, "valid": rows[:8]})
    [trainer] = made
    [callback] = [it for it in trainer.callback_handler.callbacks if type(it).__name__ == "SvcCallback"]
    trainer.evaluate()
    callback.end()
    ended(service, key)
    for name in ("loss", "grad_norm", "learning_rate"):
        expected = [(it["step"], it[name]) for it in trainer.state.log_history if name in it]
        assert len(expected) == 6
        same_points(service, key, f"train/{name}", expected)
    evaluated = [(it["step"], it["eval_loss"]) for it in trainer.state.log_history if "eval_loss" in it]
    assert len(evaluated) == 3
    assert eventually(lambda: read_points(service, key, "eval/loss") == sorted(evaluated))
    parameters = {"model/hidden_size": "16", "max_steps": "6"}
    assert eventually(lambda: read_values(service, key, "parameters").items() >= parameters.items())

    from svc_ml.integration.transformers import SvcCallback

    monkeypatch.setenv("SVC_EXPERIMENT_KEY", uuid.uuid4().hex)
    with Experiment() as experiment:
        arguments = transformers.TrainingArguments("kept", max_steps=2, save_steps=2, report_to="none", use_cpu=True)
        given = [SvcCallback(experiment, log_model="bert")]
        transformers.Trainer(model=model, args=arguments, train_dataset=rows, callbacks=given).train()
    assert eventually(lambda: "checkpoint-2/config.json" in files_of(service, experiment.id, "model-element"))


def test_keras(service: Service, key: str, tmp_path: Path) -> None:
    pytest.importorskip("keras")
    from svc_ml.integration.keras import SvcCallback

    data = made_data()
    exec(block("Keras"), data)
    ended(service, key)
    history = data["history"].history
    # 120 rows are 4 batches.
    for name in ("loss", "val_loss"):
        same_points(service, key, name, [(4 * (at + 1), value) for at, value in enumerate(history[name])])
    answer = read(service, key, "metrics/get-metric", metricName="loss")["metrics"]
    assert sorted(it["epoch"] for it in answer) == [0, 1, 2]
    assert eventually(lambda: read_values(service, key, "parameters")["optimizer/learning_rate"] == "0.01")
    assert eventually(lambda: files_of(service, key, "model-element") == {"model.keras"})

    model, more = data["model"], uuid.uuid4().hex
    with Experiment(experiment_key=more) as experiment:
        callback = SvcCallback(experiment, every=2)
        model.fit(data["X"], data["y"], epochs=5, initial_epoch=3, callbacks=[callback], verbose=0)
        loss = model.evaluate(data["X_valid"], data["y_valid"], callbacks=[callback], verbose=0)
    ended(service, more)
    assert eventually(lambda: [step for step, _ in read_points(service, more, "batch/loss")] == [14, 16, 18, 20])
    assert eventually(lambda: [step for step, _ in read_points(service, more, "loss")] == [16, 20])
    assert eventually(lambda: read_points(service, more, "test_loss") == [(20, loss)])


def test_a_watched_model(service: Service, key: str) -> None:
    with Experiment(auto_output_logging=False, log_code=False) as experiment:
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1, bias=False))
        assert experiment.watch([]) is None
        end = experiment.watch(model, log="all", log_freq=2)
        weights = {}
        for passes in range(6):
            if passes == 5:
                end()
            weights[passes] = [it.detach().clone() for it in model.parameters()]
            model(torch.rand(8, 3)).square().sum().backward()
            with torch.no_grad():
                for it in model.parameters():
                    it -= 0.01 * it.grad
        model.eval()
        model(torch.rand(8, 3))
    faults = [it["message"] for it in experiment.get_logging_errors()]
    assert len(faults) == 1 and "expected a torch.nn.Module" in faults[0]
    listed = service.get(f"/api/rest/v2/experiment/asset/list?experimentKey={experiment.id}&type=histogram3d")["assets"]
    names = ["0.weight", "0.bias", "2.weight"]
    expected = {
        (f"{kind}/{name}.json", step) for kind in ("gradients", "parameters") for name in names for step in (0, 2, 4)
    }
    assert {(it["fileName"], it["step"]) for it in listed} == expected and len(listed) == len(expected)
    for it in listed:
        if it["fileName"] == "parameters/2.weight.json":
            path = f"/api/rest/v2/experiment/asset/get-asset?experimentKey={experiment.id}&assetId={it['assetId']}"
            logged = weights[it["step"]][2]
            found = service.get(path)
            assert (found["count"], found["min"], found["max"]) == (2, float(logged.min()), float(logged.max()))


def test_torch_summary_writer(service: Service, key: str, tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    from svc_ml.integration.tensorboard import stop, sync

    sync()
    try:
        writer = tensorboard.SummaryWriter(str(tmp_path / "logs"))
        for step in range(4):
            writer.add_scalar("loss", 0.25 * step, step)
            writer.add_scalar("fresh", 0.5 * step, step, new_style=True)
            writer.add_scalars("both", {"a": step, "b": -step}, step)
        writer.add_hparams({"rate": 0.1}, {"final": 1.5}, run_name="trial")
        writer.close()
    finally:
        stop()
    ended(service, key)
    same(service, key, "loss", [0, 0.25, 0.5, 0.75])
    same(service, key, "fresh", [0, 0.5, 1, 1.5])
    expected = [("both_a", at, float(at)) for at in range(4)] + [("both_b", at, float(-at)) for at in range(4)]
    assert eventually(lambda: points_of_contexts(service, key, "both") == expected)
    assert eventually(lambda: read_values(service, key, "parameters") == {"rate": "0.1"})
