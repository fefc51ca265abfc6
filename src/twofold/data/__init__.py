"""Data before privacy: catalog, ratings, reading, bounding, splitting."""

from twofold.data.bounds import Bounds, BoundsReport
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.federation import Federation
from twofold.data.ratings import Notes, Ratings
from twofold.data.read import read_ratings
from twofold.data.split import Split, holdout, leave_n_out, recorded_holdout

__all__ = [
    "Bounds",
    "BoundsReport",
    "Catalog",
    "Federation",
    "Identifiers",
    "Notes",
    "Ratings",
    "Split",
    "holdout",
    "leave_n_out",
    "read_ratings",
    "recorded_holdout",
]
