"""Public features of items, where release mechanisms look for them; see `twofold.features`."""

from twofold.features import LARGEST_FEATURE, MOST_FEATURES, Features

__all__ = ["LARGEST_FEATURE", "MOST_FEATURES", "Features"]
