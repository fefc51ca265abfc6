"""pandas: from a data frame to a data frame of recommendations, without leaving the building."""

from __future__ import annotations

import pandas as pd
from made_up import ITEMS, visits

import twofold as tw

frame = pd.DataFrame(visits("st-anna", 300), columns=["hospital", "patient", "code", "count"])
catalog = tw.Catalog(ITEMS)
ratings = tw.read_ratings(frame, catalog, user="patient", item="code", value="count", feedback="counts")

model = tw.fit_alone(ratings)  # the bar that joining a federation has to clear
lists = model.recommend_all(n=3).to_pandas()
print(lists.head(6).to_string(index=False))
print(f"{lists['user'].nunique()} people, {lists['item'].nunique()} different items")
