"""comet_mpm.API, unchanged, against the service: its frames have the numbers of our own reads, or of the events sent."""

from __future__ import annotations

import math
import random
import statistics
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import comet_mpm
import pandas as pd
import pytest
import requests
from svc_service import Service, eventually

DAY = 86_400_000
START = 19_700 * DAY
DAYS = ["2023-12-09T00:00:00.000Z", "2023-12-10T00:00:00.000Z", "2023-12-11T00:00:00.000Z"]
RANGE = {"start_date": "2023-12-09T00:00:00.000Z", "end_date": "2023-12-12T00:00:00.000Z", "interval_type": "DAILY"}
MS = {"from": str(START), "to": str(START + 3 * DAY), "interval": str(DAY)}
NL = "\"feature_country\" = 'NL' AND feature_age > 30"
FILTERS = [NL, "modelVersion = '2.0.0'"]


class Reader:
    """A model with 600 labelled predictions of three days, and a reference, and what was sent for it."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service = service
        self.name = f"reader-{uuid.uuid4().hex[:8]}"
        rng = random.Random(7)
        self.events = []
        for at in range(600):
            score = round(rng.random(), 2)
            country = rng.choice(["NL", "NL", "DE", "it's"])
            event = {
                "id": f"p{at}",
                "day": at // 250,
                "ms": START + (at // 250) * DAY + at * 1_000,
                "version": "2.0.0" if at % 3 == 0 else "1.0.0",
                "age": 20 + at % 40 + (at // 250) * 3,
                "country": country,
                "score": score,
                "target": int(rng.random() < score),
            }
            self.events.append(event)
        for version in ("1.0.0", "2.0.0"):
            mpm = comet_mpm.CometMPM(
                workspace_name=service.workspace, model_name=self.name, model_version=version, max_batch_time=1
            )
            for it in self.events:
                if it["version"] != version:
                    continue
                features = {"age": it["age"], "country": it["country"]}
                output = {"value": str(it["target"]), "score": it["score"]}
                mpm.log_event(it["id"], features, output_features=output, timestamp=it["ms"] / 1_000)
                mpm.log_label(it["id"], labels={"target": it["target"]}, timestamp=it["ms"] / 1_000 + 60)
            mpm.end()
            assert not mpm.has_logging_error()
        lines = [f"{START - DAY + at},r{at},{20 + at % 30},{'NL' if at % 2 else 'DE'},{at % 2}" for at in range(400)]
        reference = folder / "reference.csv"
        header = "timestamp,predictionId,feature_age,feature_country,label_value_target"
        reference.write_text("\n".join([header, *lines]) + "\n")
        mpm.upload_dataset_csv(str(reference), dataset_type="TRAINING_EVENTS", dataset_name=f"{self.name}-reference")
        self.api = comet_mpm.API()
        model = eventually(lambda: self._find() if self._is_stored() else None)
        self.model: Any = model

    def _find(self) -> Any:
        return self.api.get_model_by_name(self.service.workspace, self.name)

    def _is_stored(self) -> bool:
        counts = self.get("/mpm/v2/models")["models"]
        of_versions = counts[0]["versions"] if counts else []
        stored = [sum(it[kind] for it in of_versions) for kind in ("events", "labels")]
        return stored == [600, 600] and bool(self._has_reference())

    def _has_reference(self) -> bool:
        try:
            return bool(self.get("/mpm/v2/drift")["reference"]["events"] == 400)
        except OSError:
            return False

    def get(self, path: str, **more: str) -> Any:
        query = {"workspaceName": self.service.workspace, "modelName": self.name, **more}
        return self.service.get(f"{path}?{urlencode(query)}")

    def of(self, keep: Callable[[dict[str, Any]], bool] = lambda it: True) -> list[list[dict[str, Any]]]:
        return [[it for it in self.events if it["day"] == day and keep(it)] for day in range(3)]


@pytest.fixture(scope="module")
def reader(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMET_URL_OVERRIDE", service.url)
        patch.setenv("COMET_API_KEY", service.api_key)
        return Reader(service, tmp_path_factory.mktemp("reader"))


def is_nl(it: dict[str, Any]) -> bool:
    return bool(it["country"] == "NL" and it["age"] > 30)


def is_two(it: dict[str, Any]) -> bool:
    return bool(it["version"] == "2.0.0")


def columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    return {str(name): [None if pd.isna(it) else it for it in frame[name]] for name in frame.columns}


def close(values: list[Any]) -> list[Any]:
    return [it if it is None else pytest.approx(it, rel=1e-9, abs=1e-12) for it in values]


def auc(rows: list[dict[str, Any]]) -> float:
    wins = [
        (a["score"] > b["score"]) + (a["score"] == b["score"]) / 2
        for a in rows
        for b in rows
        if a["target"] > b["target"]
    ]
    return sum(wins) / len(wins)


def ks(rows: list[dict[str, Any]]) -> float:
    of = {target: [it["score"] for it in rows if it["target"] == target] for target in (0, 1)}
    share = {target: lambda x, its=its: sum(it <= x for it in its) / len(its) for target, its in of.items()}
    return max(abs(share[0](it["score"]) - share[1](it["score"])) for it in rows)


def test_models_are_found_by_name_with_their_columns(reader: Reader) -> None:
    model, api = reader.model, reader.api
    assert api.get_model_by_name(reader.service.workspace, "none") is None
    assert api.get_model_by_name("none", reader.name) is None
    assert api.get_model() is None
    assert sorted(model.get_numerical_features()) == ["feature_age", "prediction_score"]
    assert sorted(model.get_categorical_features()) == ["feature_country", "prediction_value"]
    assert model.get_label_names() == ["label_target"]
    details = model.get_details()
    assert details["name"] == reader.name
    assert details["model"]["versions"] == ["1.0.0", "2.0.0"]


def test_predictions_are_counted_as_by_our_own_read(reader: Reader) -> None:
    frame = reader.model.get_nb_predictions(**RANGE)
    counts = reader.get("/mpm/v2/events/count", **MS)["counts"]
    ours = Counter[int]()
    for it in counts:
        ours[it["timestamp"]] += it["events"]
    assert [it.isoformat() for it in frame.index] == [day.replace(".000Z", "+00:00") for day in DAYS]
    assert columns(frame) == {"all": [ours[START + day * DAY] for day in range(3)]}
    assert sum(frame["all"]) == 600

    segments = reader.model.get_nb_predictions(**RANGE, filters=FILTERS)
    assert list(segments.columns) == [it.replace("'", "") for it in FILTERS]
    assert [list(segments[it]) for it in segments.columns] == [
        [len(it) for it in reader.of(keep)] for keep in (is_nl, is_two)
    ]
    assert list(reader.model.get_nb_predictions(**RANGE, model_version="2.0.0")["all"]) == [
        len(it) for it in reader.of(is_two)
    ]
    direct = reader.model._client.get_nb_predictions(
        reader.model.model_id, RANGE["start_date"], RANGE["end_date"], "DAILY", [], None
    )
    assert [it["y"] for it in direct["data"][0]["data"]] == list(frame["all"])


def test_a_range_cuts_the_first_and_the_last_hour(reader: Reader) -> None:
    low, high = START + 100_500, START + DAY + 300_000
    at = {"start_date": pd.Timestamp(low, unit="ms").isoformat(), "end_date": pd.Timestamp(high, unit="ms").isoformat()}
    hours = reader.model.get_nb_predictions(**at, interval_type="HOURLY")
    assert len(hours) == 25
    assert sum(hours["all"]) == sum(low <= it["ms"] < high for it in reader.events)
    assert sum(reader.model.get_feature_percentiles("feature_age", **at)["percentile"] == "p50") == 2


def test_custom_metrics_are_those_of_the_events(reader: Reader) -> None:
    get = reader.model.get_custom_metric
    frame = get('SELECT avg("prediction_score") FROM MODEL WHERE feature_age >= 25', **RANGE)
    expected = [statistics.mean(it["score"] for it in day) for day in reader.of(lambda it: it["age"] >= 25)]
    assert columns(frame) == {"all": close(expected)}
    sql = "SELECT SUM(CASE WHEN prediction_value = '1' THEN 1 ELSE 0 END) * 100.0 / COUNT(*) FROM model"
    frame = get(sql, **RANGE, filters=FILTERS)
    expected = [
        [100 * statistics.mean(it["target"] for it in day) for day in reader.of(keep)] for keep in (is_nl, is_two)
    ]
    assert [list(frame[it]) for it in frame.columns] == [close(its) for its in expected]
    hits = get("SELECT ACCURACY(prediction_value, CAST(label_target AS String)) FROM Model", **RANGE)
    assert list(hits["all"]) == [1, 1, 1]
    none = get("SELECT max(feature_age) FROM MODEL WHERE feature_country = 'it''s' AND feature_age > 1e6", **RANGE)
    assert columns(none) == {"all": [None, None, None]}
    exact = get(f'SELECT COUNT(*) FROM MODEL WHERE "timestamp" >= {START} AND "timestamp" < {START + 5_000}', **RANGE)
    assert list(exact["all"]) == [5, 0, 0]


@pytest.mark.parametrize(
    ("algorithm", "feature", "ours"),
    [
        ("EMD", "feature_age", "wasserstein"),
        ("PSI", "feature_age", "psi"),
        ("KL", "feature_age", "kullbackLeibler"),
        ("KS", "feature_age", "kolmogorovSmirnov"),
        ("EMD", "feature_country", "totalVariation"),
        ("PSI", "feature_country", "psi"),
        ("KL", "label_target", "kullbackLeibler"),
    ],
)
def test_drift_is_that_of_our_own_read(reader: Reader, algorithm: str, feature: str, ours: str) -> None:
    frame = reader.model.get_feature_drift(feature, algorithm=algorithm, **RANGE)
    part, name = feature.split("_")
    read = reader.get("/mpm/v2/drift", **MS, part=part, feature=name)
    expected = [it["features"][0][ours] for it in read["windows"]]
    assert list(frame.index) == DAYS
    assert columns(frame) == {"all": close(expected)}
    assert any(it > 0 for it in expected)


def test_drift_of_a_segment(reader: Reader) -> None:
    frame = reader.model.get_feature_drift("feature_country", **RANGE, filters=["feature_country = 'NL'", "true"])
    assert list(frame["feature_country = 'NL'"]) == close([0.5, 0.5, 0.5])
    whole = reader.model.get_feature_drift("feature_country", **RANGE)
    assert list(frame["true"]) == close(list(whole["all"]))
    labels = reader.model.get_feature_drift("label_target", algorithm="PSI", **RANGE, filters=["true"])
    assert list(labels["true"]) == close(
        list(reader.model.get_feature_drift("label_target", algorithm="PSI", **RANGE)["all"])
    )


def test_categories_are_those_of_our_own_read(reader: Reader) -> None:
    frame = reader.model.get_feature_category_distribution("feature_country", **RANGE)
    read = reader.get("/mpm/v2/distribution", **MS, feature="country")
    for at, category in enumerate(read["categories"]):
        assert list(frame[frame["value"] == category]["all"]) == [it["counts"][at] for it in read["windows"]]
    shares = reader.model.get_feature_category_distribution("feature_country", normalize=True, **RANGE, filters=FILTERS)
    for column, keep in zip(FILTERS, (is_nl, is_two), strict=True):
        for category in read["categories"]:
            expected = [sum(it["country"] == category for it in day) / len(day) for day in reader.of(keep)]
            got = shares[shares["value"] == category][column]
            assert [0 if math.isnan(it) else it for it in got] == close(expected)


def test_percentiles_and_density_are_those_of_our_own_read(reader: Reader) -> None:
    frame = reader.model.get_feature_percentiles("prediction_score", **RANGE)
    read = reader.get("/mpm/v2/distribution", **MS, feature="score", part="prediction")
    of = {
        name: [it["quantiles"][share] for it in read["windows"]]
        for name, share in {"p10": "0.1", "p25": "0.25", "p50": "0.5", "p75": "0.75", "p90": "0.9"}.items()
    }
    of |= {"p0": [it["min"] for it in read["windows"]], "p100": [it["max"] for it in read["windows"]]}
    assert {name: list(frame[frame["percentile"] == name]["all"]) for name in set(frame["percentile"])} == of
    segment = reader.model.get_feature_percentiles("prediction_score", **RANGE, filters=FILTERS)
    assert list(segment[segment["percentile"] == "p100"][NL]) == [
        max(it["score"] for it in day) for day in reader.of(is_nl)
    ]

    density = reader.model.get_feature_density("prediction_score", **RANGE, filters=["true", NL])
    whole = {"from": MS["from"], "to": MS["to"]}
    (window,) = reader.get("/mpm/v2/distribution", **whole, feature="score", part="prediction", bins="50")["windows"]
    width = (window["max"] - window["min"]) / 50
    assert list(density["true"]) == close([it / 600 / width for it in window["counts"]])
    assert sum(density[NL]) * width == pytest.approx(1)
    assert list(reader.model.get_feature_density("prediction_score", **RANGE)["all"]) == list(density["true"])


def test_classification_curves_are_those_of_their_definitions(reader: Reader) -> None:
    get = reader.model.get_classification_curve
    frame = get("prediction_score", "label_target", **RANGE)
    assert list(frame["all"]) == close([auc(day) for day in reader.of()])
    frame = get("score", "target", curve_type="KS", positive_class_value="1", **RANGE, filters=FILTERS)
    assert [list(frame[it]) for it in FILTERS] == [
        close([ks(day) for day in reader.of(keep)]) for keep in (is_nl, is_two)
    ]
    gini = get("score", "target", curve_type="GINI", positive_class_value="0", **RANGE)
    assert list(gini["all"]) == close([1 - 2 * auc(day) for day in reader.of()])


def test_the_gains_table_is_that_of_its_definition(reader: Reader) -> None:
    frame = reader.model.get_gains_table(
        "prediction_score", "label_target", band_count=5, **RANGE, filters=["true", NL]
    )
    for key, keep in (("true", lambda it: True), (NL, is_nl)):
        rows = sorted((it for day in reader.of(keep) for it in day), key=lambda it: -it["score"])
        first = {it["score"]: at for at, it in reversed(list(enumerate(rows)))}
        bands = [[it for it in rows if first[it["score"]] * 5 // len(rows) == band] for band in range(5)]
        positives = sum(it["target"] for it in rows)
        table = frame[frame["predicateKey"] == key]
        assert frame.attrs["totals"][key] == {
            "total": len(rows),
            "total_positives": positives,
            "overall_rate": pytest.approx(positives / len(rows)),
        }
        assert list(table.index) == [1, 2, 3, 4, 5]
        assert list(table["count"]) == [len(it) for it in bands]
        assert list(table["positives"]) == [sum(it["target"] for it in its) for its in bands]
        assert list(table["scoreFrom"]) == [its[-1]["score"] for its in bands]
        assert list(table["scoreTo"]) == [its[0]["score"] for its in bands]
        rate = positives / len(rows)
        assert list(table["lift"]) == close([sum(it["target"] for it in its) / len(its) / rate for its in bands])
        seen = [[it for its in bands[: at + 1] for it in its] for at in range(5)]
        gain = [sum(it["target"] for it in its) / positives for its in seen]
        lost = [sum(1 - it["target"] for it in its) / (len(rows) - positives) for its in seen]
        assert list(table["cumulativeGain"]) == close(gain)
        assert list(table["cumulativeSeparation"]) == close([a - b for a, b in zip(gain, lost, strict=True)])
        assert list(table["cumulativeLift"]) == close(
            [g / (len(its) / len(rows)) for g, its in zip(gain, seen, strict=True)]
        )


def test_sql_exports_every_prediction_page_by_page(reader: Reader) -> None:
    workspace = reader.service.workspace
    schema = {it["name"]: it["kind"] for it in reader.api.get_model_schema(workspace, reader.name)["columns"]}
    assert schema == {
        **dict.fromkeys(["predictionId", "modelVersion", "timestamp", "__time"], "SYSTEM"),
        **dict.fromkeys(["feature_age", "feature_country"], "INPUT_FEATURE"),
        **dict.fromkeys(["prediction_score", "prediction_value"], "OUTPUT_PREDICTION"),
        "label_target": "LABEL",
    }
    pages = list(
        reader.api.iter_sql_pages(
            workspace,
            reader.name,
            "predictionId, modelVersion, timestamp, feature_age, feature_country, label_target",
            where="__time >= TIMESTAMP '2023-12-09 00:00:00'",
            page_size=100,
        )
    )
    assert len(pages) == 7
    rows = [it for page in pages for it in page]
    assert rows[0]["__time"] == DAYS[0]
    assert [
        (
            it["predictionId"],
            it["modelVersion"],
            it["timestamp"],
            it["feature_age"],
            it["feature_country"],
            it["label_target"],
        )
        for it in rows
    ] == [(it["id"], it["version"], it["ms"], it["age"], it["country"], it["target"]) for it in reader.events]
    result = reader.api.query_sql(workspace, reader.name, "SELECT * FROM MODEL ORDER BY timestamp DESC", max_rows=2)
    assert (result["rowCount"], result["truncated"]) == (2, True)
    assert [it["name"] for it in result["columns"]] == list(schema)
    with pytest.raises(requests.HTTPError, match="the function file is not allowed"):
        reader.api.query_sql(workspace, reader.name, "SELECT file('/etc/passwd') FROM MODEL")
