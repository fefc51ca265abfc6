"""The whole flow as one estimator in the style of scikit-learn, which need not be installed."""

from twofold.estimator.recommender import FederatedRecommender

__all__ = ["FederatedRecommender"]
