"""
Trains a small classifier of handwritten digits on two workers of Ray Train, each on its half of the data.

    pip install ./clients/python/svc-ml "ray[train]" scikit-learn
    SVC_API_KEY=... python ray_digits.py            # --offline: to disk, and later svc-ml sync svc-offline
"""

from __future__ import annotations

import argparse
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

from svc_ml.integration.dist import (
    CONFIG_KEY,
    SvcTrainLoggerCallback,
    svc_dist_train_logger,
    svc_worker,
    svc_worker_logger,
)

# Trainers of frameworks, such as TorchTrainer, are chosen by Ray itself; this one without a framework is not.
if os.environ.get("RAY_TRAIN_V2_ENABLED", "1") == "1":
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
else:
    from ray.train.data_parallel_trainer import DataParallelTrainer


@svc_worker
def train(config: dict[str, Any]) -> None:
    context = ray.train.get_context()
    rank, workers = context.get_world_rank(), context.get_world_size()
    pixels, digits = load_digits(return_X_y=True)
    pixels, digits = pixels[rank::workers] / 16, digits[rank::workers]
    half = len(digits) // 2
    model = MLPClassifier((config["hidden"],), learning_rate_init=config["rate"], random_state=rank)
    with svc_worker_logger(config) as experiment:
        for epoch in range(config["epochs"]):
            for begin in range(0, half, 64):
                end = min(begin + 64, half)
                model.partial_fit(pixels[begin:end], digits[begin:end], classes=range(10))
                with experiment.context_manager(f"worker-{rank}"):
                    experiment.log_metric("batch_loss", model.loss_, step=epoch * half + begin, epoch=epoch)
            print(f"worker {rank} has finished epoch {epoch}")
            probabilities = model.predict_proba(pixels[half:])
            result = {
                "loss": float(log_loss(digits[half:], probabilities, labels=range(10))),
                "accuracy": float((probabilities.argmax(axis=1) == digits[half:]).mean()),
                "epoch": epoch,
            }
            if rank > 0:
                ray.train.report(result)
                continue
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "model.pkl").write_bytes(pickle.dumps(model))
                ray.train.report(result, checkpoint=Checkpoint.from_directory(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offline", action="store_true", help="log to disk instead of to the service")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--storage", default=None, help="where Ray keeps its own results")
    parser.add_argument("--attach", action="store_true", help="to a trainer that is made already, by the function")
    given = parser.parse_args()

    config: dict[str, Any] = {"rate": 0.01, "hidden": 32, "epochs": given.epochs}
    options: dict[str, Any] = {"tags": ["digits"], "save_checkpoints": True, "online": not given.offline}
    callback = None if given.attach else SvcTrainLoggerCallback(config, **options)
    trainer = DataParallelTrainer(
        train,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(callbacks=[callback] if callback else None, storage_path=given.storage),
    )
    if callback is None:
        svc_dist_train_logger(trainer, **options)
    result = trainer.fit()
    if callback is not None:
        callback.end()
    print(f"accuracy of the first worker: {result.metrics['accuracy']:.3f}")
    print(config[CONFIG_KEY]["experiment_key"])


if __name__ == "__main__":
    main()
