"""scikit-learn: the estimator at the end of a pipeline, and a search over the plan. A simulation: nothing is spent."""

from __future__ import annotations

import pandas as pd
from made_up import ITEMS, visits
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import twofold as tw


def tidy(frame: pd.DataFrame) -> pd.DataFrame:
    """Use the estimator's names, and count no item more than five times."""
    named = frame.rename(columns={"hospital": "entity", "patient": "user", "code": "item", "count": "value"})
    return named.assign(value=named["value"].clip(upper=5))


rows = [*visits("st-anna", 120), *visits("st-bern", 120)]
frame = pd.DataFrame(rows, columns=["hospital", "patient", "code", "count"])
plan = tw.Plan(catalog=tw.Catalog(ITEMS), feedback="counts", bound=5, max_items=6, n_users=100, simulation=True)

pipeline = Pipeline([("tidy", FunctionTransformer(tidy)), ("recommend", tw.FederatedRecommender(plan))])
pipeline.fit(frame)
print(pipeline.named_steps["recommend"].recommend("st-anna-7", n=3))

folds = KFold(2, shuffle=True, random_state=0)  # rows of one table, so every hospital is in every fold
search = GridSearchCV(pipeline, {"recommend__plan__rank": [2, 4]}, cv=folds).fit(frame)
print(search.best_params_, f"nDCG@10 {search.best_score_:.2f}")
