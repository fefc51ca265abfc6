"""From noisy moments to shared factors: by what an absent entry means."""

from __future__ import annotations

from twofold.protocol.plan import Plan
from twofold.prototypes.bilinear.moments import Moments
from twofold.server.rows import SharedFactors

__all__ = ["factorize_moments"]


def factorize_moments(moments: Moments, plan: Plan) -> SharedFactors:
    """Denoise the moments of all users and factorize them.

    Parameters
    ----------
    moments : Moments
        What a bilinear mechanism's ``combine`` gives.
    plan : Plan
        Rank, feedback and public features.

    Privacy
    -------
    Post-processing of released numbers.
    """
    if plan.feedback == "counts":
        from twofold.server.bilinear_counts import factorize_counts

        return factorize_counts(moments, plan)
    from twofold.server.bilinear_ratings import factorize_ratings

    return factorize_ratings(moments, plan)
