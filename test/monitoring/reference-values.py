"""Makes reference-values.json: data sets, and what other programs say of them.

    python3 -m venv venv && venv/bin/pip install scipy==1.17.1 numpy==2.4.6 evidently==0.7.23 'pandas<3' scikit-learn==1.9.1
    venv/bin/python test/monitoring/reference-values.py > test/monitoring/reference-values.json

KS is scipy.stats.ks_2samp, the p-value scipy.special.kolmogorov; Wasserstein, PSI and Jensen-Shannon are the functions of
evidently themselves. Evidently makes its bins of both sides; here they are frozen on the reference, so PSI and
Jensen-Shannon are given the name of each value's bin as a category, with the missing values as one more.
"""

import json
import math

import numpy as np
import pandas as pd
from evidently.legacy.calculations.stattests.jensenshannon import _jensenshannon
from evidently.legacy.calculations.stattests.psi import _psi
from evidently.legacy.calculations.stattests.wasserstein_distance_norm import _wasserstein_distance_norm
from evidently.legacy.core import ColumnType
from scipy.special import kolmogorov
from scipy.stats import ks_2samp
from sklearn.metrics import (accuracy_score, f1_score, mean_absolute_error, precision_score, recall_score,
                             root_mean_squared_error)

random = np.random.default_rng(20261121)


def short(values):
    return [None if isinstance(it, float) and math.isnan(it) else float(f"{it:.6g}") for it in values]


def with_missing(values, share):
    return [None if random.random() < share else it for it in values]


def numeric_bins(reference):
    ordered = sorted(it for it in reference if it is not None)
    different = sorted(set(ordered))
    if len(different) <= 20:
        return lambda it: sum(it >= edge for edge in different) + sum(it > edge for edge in different)
    deciles = sorted({ordered[int(level * len(ordered))] for level in [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]})
    return lambda it: int(np.searchsorted(deciles, it, side="left"))


def measure(reference, current, is_numeric):
    name = numeric_bins(reference) if is_numeric else (lambda it: str(it))
    named = [pd.Series(["missing" if it is None else f"bin {name(it)}" for it in side]) for side in (reference, current)]
    values = {
        "psi": float(_psi(*named, ColumnType.Categorical, 0.1)[0]),
        "jensenShannon": float(_jensenshannon(*named, ColumnType.Categorical, 0.1)[0]),
    }
    if is_numeric:
        numbers = [pd.Series([it for it in side if it is not None]) for side in (reference, current)]
        n, m = map(len, numbers)
        if n == 0 or m == 0:
            return values | {"kolmogorovSmirnov": None, "kolmogorovSmirnovPValue": None, "wasserstein": None}
        statistic = float(ks_2samp(*numbers).statistic)
        values |= {
            "kolmogorovSmirnov": statistic,
            "kolmogorovSmirnovPValue": float(kolmogorov(math.sqrt(n * m / (n + m)) * statistic)),
            "wasserstein": float(_wasserstein_distance_norm(*numbers, ColumnType.Numerical, 0.1)[0]),
        }
    return values


normal = lambda mean, deviation, count: short(random.normal(mean, deviation, count))
pick = lambda names, shares, count: [str(it) for it in random.choice(names, count, p=shares)]

cases = {
    "the same distribution": (normal(0, 1, 400), normal(0, 1, 300)),
    "a shift": (normal(5, 2, 400), normal(6, 2, 250)),
    "heavy tails, some missing": (
        with_missing(short(random.lognormal(0, 1.5, 350)), 0.1),
        with_missing(short(random.lognormal(0.4, 1.2, 300)), 0.25),
    ),
    "many ties": ([int(it) for it in random.integers(0, 60, 400)], [int(it) for it in random.integers(10, 75, 300)]),
    "few different numbers": ([int(it) for it in random.poisson(2, 300)], [int(it) for it in random.poisson(3.5, 260)]),
    "constants that differ": ([5.0] * 120, [5.5] * 100),
    "a constant that stays": ([5.0] * 120, [5.0] * 100),
    "beyond the reference": (normal(0, 1, 200), normal(50, 1, 200)),
    "far from zero": (short(random.normal(300, 0.7, 300)), short(random.normal(300.4, 0.7, 300))),
    "all missing afterwards": (normal(0, 1, 150), [None] * 120),
    "categories, seen and unseen": (
        pick(["a", "b", "c", "d"], [0.4, 0.3, 0.2, 0.1], 400),
        pick(["b", "c", "d", "e", "f"], [0.3, 0.3, 0.2, 0.1, 0.1], 300),
    ),
    "categories, some missing": (
        with_missing(pick(["it's", "b\\c", "ä"], [0.5, 0.3, 0.2], 300), 0.05),
        with_missing(pick(["it's", "b\\c", "ä"], [0.4, 0.3, 0.3], 300), 0.2),
    ),
    "booleans": ([bool(it) for it in random.random(300) < 0.3], [bool(it) for it in random.random(250) < 0.45]),
}


def is_numeric(side):
    return all(it is None or (isinstance(it, (int, float)) and not isinstance(it, bool)) for it in side)


def quality(actual, predicted):
    return {
        "accuracy": accuracy_score(actual, predicted),
        "precision": precision_score(actual, predicted, average="macro", zero_division=0),
        "recall": recall_score(actual, predicted, average="macro", zero_division=0),
        "f1": f1_score(actual, predicted, average="macro", zero_division=0),
    }


classes = (pick(["cat", "dog", "eel"], [0.5, 0.3, 0.2], 200), pick(["cat", "dog", "eel", "fly"], [0.4, 0.3, 0.2, 0.1], 200))
flags = ([bool(it) for it in random.random(150) < 0.4], [bool(it) for it in random.random(150) < 0.5])
truth = normal(10, 3, 150)
guess = short(np.array(truth) + random.normal(0.5, 1, 150))
errors = np.array(guess) - np.array(truth)

print(json.dumps({
    "drift": {
        name: {"reference": reference, "current": current, "isNumeric": is_numeric(reference),
               "values": measure(reference, current, is_numeric(reference))}
        for name, (reference, current) in cases.items()
    },
    "quality": {
        "classes": {"actual": classes[0], "predicted": classes[1], "values": quality(*classes)},
        "booleans": {"actual": flags[0], "predicted": flags[1], "values": quality(*flags)},
        "numbers": {"actual": truth, "predicted": guess, "values": {
            "meanAbsoluteError": mean_absolute_error(truth, guess),
            "rootMeanSquaredError": root_mean_squared_error(truth, guess),
            "bias": float(errors.mean()),
        }},
    },
}, allow_nan=False, separators=(",", ":")))
