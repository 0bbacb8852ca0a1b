"""The integrations of frameworks with comet_ml and MLflow, unchanged, in small trainings on the CPU. Not run by CI: see README.md."""

from __future__ import annotations

import os
import uuid

import pytest
from svc_service import Service, eventually

torch = pytest.importorskip("torch")

STEPS = 40


@pytest.fixture
def key(service: Service, monkeypatch: pytest.MonkeyPatch) -> str:
    key = uuid.uuid4().hex
    settings = {"URL_OVERRIDE": service.url + "/clientlib/", "API_KEY": service.api_key, "EXPERIMENT_KEY": key}
    for name, value in (settings | {"WORKSPACE": service.workspace, "ERROR_TRACKING_ENABLE": "0"}).items():
        monkeypatch.setenv(f"COMET_{name}", value)
    monkeypatch.delenv("COMET_DISABLE_AUTO_LOGGING", raising=False)
    return key


def read(service: Service, path: str, key: str, more: str = "") -> dict[str, list[dict[str, object]]]:
    return service.get(f"/api/rest/v2/experiment/{path}?experimentKey={key}{more}")


def points(service: Service, key: str, name: str, count: int) -> list[dict[str, object]]:
    """A metric, once it has as many points as this."""

    def found() -> list[dict[str, object]]:
        metrics = read(service, "metrics/get-metric", key, f"&metricName={name}")["metrics"]
        return metrics if len(metrics) >= count else []

    return eventually(found)


def parameters(service: Service, key: str) -> dict[str, object]:
    return {str(it["name"]): it["valueCurrent"] for it in read(service, "parameters", key)["values"]}


def test_lightning(service: Service, key: str, tmp_path: object) -> None:
    import lightning
    from lightning.pytorch.loggers import CometLogger

    class Line(lightning.LightningModule):
        def __init__(self, rate: float) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
            loss = torch.nn.functional.mse_loss(self.layer(batch[0]), 3 * batch[0])
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=self.hparams.rate)

    logger = CometLogger(workspace=service.workspace, project="frameworks", experiment_key=key)
    trainer = lightning.Trainer(
        max_steps=STEPS,
        log_every_n_steps=1,
        logger=logger,
        accelerator="cpu",
        default_root_dir=str(tmp_path),
        enable_progress_bar=False,
    )
    data = torch.utils.data.TensorDataset(torch.rand(STEPS * 4, 1))
    trainer.fit(Line(0.1), torch.utils.data.DataLoader(data, batch_size=4))
    logger.experiment.end()

    found = points(service, key, "loss", STEPS)
    assert [it["step"] for it in found] == list(range(STEPS))
    assert float(str(found[-1]["metricValue"])) < float(str(found[0]["metricValue"]))
    assert parameters(service, key)["rate"] == "0.1"


def test_transformers(service: Service, key: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    monkeypatch.setenv("COMET_PROJECT_NAME", "frameworks")
    size = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BertForSequenceClassification(BertConfig(**size, intermediate_size=32, max_position_embeddings=16))
    rows = [{"input_ids": [1 + at % 40] * 8, "attention_mask": [1] * 8, "labels": at % 2} for at in range(STEPS * 4)]
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=STEPS,
        per_device_train_batch_size=4,
        logging_steps=1,
        save_strategy="no",
        report_to=["comet_ml"],
        use_cpu=True,
        disable_tqdm=True,
    )
    Trainer(model=model, args=arguments, train_dataset=rows).train()
    import comet_ml

    running = comet_ml.get_running_experiment()
    if running is not None:
        running.end()

    found = points(service, key, "train/loss", STEPS)
    assert [it["step"] for it in found][:STEPS] == list(range(1, STEPS + 1))
    assert any(name.endswith("hidden_size") for name in parameters(service, key))
    assert os.environ["COMET_EXPERIMENT_KEY"] == key


def test_lightning_with_autolog_of_mlflow(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    import lightning

    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", service.api_key)
    mlflow.set_tracking_uri(service.url)
    mlflow.set_experiment(f"lightning-{uuid.uuid4().hex[:8]}")
    mlflow.pytorch.autolog(log_every_n_step=1)
    torch.manual_seed(0)

    class Line(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)

        def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
            loss = torch.nn.functional.mse_loss(self(batch[0]), 3 * batch[0])
            self.log("loss", loss, on_step=True, on_epoch=True)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(STEPS, 1)), batch_size=1)
    model = Line()
    options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", **options)
    with mlflow.start_run() as run:
        trainer.fit(model, data)
    mlflow.pytorch.autolog(disable=True)

    found = mlflow.get_run(run.info.run_id)
    assert found.info.status == "FINISHED"
    assert found.data.params["lr"] == "0.1" and found.data.params["optimizer_name"] == "SGD"
    assert len(points(service, run.info.run_id, "loss_step", STEPS)) == STEPS
    again = mlflow.pytorch.load_model(f"runs:/{run.info.run_id}/model")
    assert torch.equal(again(torch.ones(1, 1)), model(torch.ones(1, 1)))
