"""RecBole: atomic files in, recommendations with titles out."""

from __future__ import annotations

from pathlib import Path

from made_up import ITEMS, visits

import twofold as tw

# Yours: ml-100k.inter and ml-100k.item, say. These are made up.
places = {code: number for number, code in enumerate(ITEMS, 1)}
lines = [f"{patient}\t{places[code]}\t{count}" for _, patient, code, count in visits("shop", 150)]
Path("toy.inter").write_text("\n".join(["user_id:token\titem_id:token\trating:float", *lines]) + "\n")
titles = [f"{number}\t{code}" for code, number in places.items()]
Path("toy.item").write_text("\n".join(["item_id:token\ttitle:token_seq", *titles]) + "\n")

catalog = tw.recbole_catalog("toy.item", public=True)  # a publisher's list
ratings = tw.read_recbole("toy.inter", catalog, feedback="ratings")
print(ratings)
named = dict(zip(catalog.items, catalog.features["title"], strict=True))
for item, score in tw.fit_alone(ratings).recommend("shop-7", n=3):
    print(f"{named[item]:10} {score:.2f}")
