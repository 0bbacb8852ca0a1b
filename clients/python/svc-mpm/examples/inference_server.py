"""
An inference server that logs what it predicts, and what turned out to be true.

    pip install svc-mpm fastapi uvicorn
    SVC_API_KEY=<key> python inference_server.py
    curl localhost:8000/predict -H 'content-type: application/json' -d '{"amount": 120.5, "country": "NL"}'
    curl localhost:8000/outcome -H 'content-type: application/json' -d '{"prediction_id": "<id>", "fraud": true}'
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from svc_mpm import SvcMPM

mpm = SvcMPM(model_name="fraud", model_version="1.0.0", asyncio=True)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    await mpm.connect()
    yield
    # SIGTERM comes to here: what was logged is sent before the process ends.
    await mpm.end()


app = FastAPI(lifespan=lifespan)


class Payment(BaseModel):
    amount: float
    country: str


class Outcome(BaseModel):
    prediction_id: str
    fraud: bool


@app.post("/predict")
async def predict(payment: Payment) -> dict[str, object]:
    prediction_id = str(uuid.uuid4())
    score = min(1.0, payment.amount / 1000)
    await mpm.log_event(
        prediction_id,
        input_features=payment.model_dump(),
        output_features={"value": score > 0.5, "probability": score},
    )
    return {"prediction_id": prediction_id, "fraud": score > 0.5}


@app.post("/outcome")
async def outcome(known: Outcome) -> dict[str, object]:
    await mpm.log_label(known.prediction_id, labels={"value": known.fraud})
    return {}


if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")), log_level="warning")
