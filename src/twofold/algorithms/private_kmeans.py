"""Private k-means: the paper's chain from bounded rows to noisy sums and counts, pure ε, add or remove one row."""

from __future__ import annotations

from typing import Any

from twofold.algorithms._private_kmeans_centers import choice_mechanism, trial_losses
from twofold.algorithms._private_kmeans_config import Mode, PrivateKMeansConfig, Shares, choose_mode, noise_energy
from twofold.algorithms._private_kmeans_trial import (
    PrivateKMeansResult,
    n_items_of,
    parts_of,
    run_trial,
    trial_events,
)
from twofold.privacy.events import Event, SequentialEvent
from twofold.privacy.mechanisms import Released
from twofold.privacy.rng import Source, source

__all__ = [
    "Mode",
    "PrivateKMeansConfig",
    "PrivateKMeansResult",
    "Shares",
    "choose_mode",
    "noise_energy",
    "planned_event",
    "private_kmeans",
]


def planned_event(config: PrivateKMeansConfig, n_items: int, *, seeded: bool = False) -> Event:
    """Describe a release completely before anything is drawn; `private_kmeans` returns an equal event.

    Privacy
    -------
    Made of public numbers only. Selections state the public limit on candidates, of which there may be fewer.

    Examples
    --------
    >>> from twofold.privacy.accountant import price
    >>> config = PrivateKMeansConfig(n_clusters=3, epsilon=1, promised_users=9000, bound=1, max_items=8)
    >>> price(planned_event(config, 40))
    PureDP(epsilon=Fraction(1, 1))
    """
    parts = parts_of(config, n_items)
    events = [one for _ in range(parts.trials) for one in trial_events(config, parts, n_items, seeded)]
    if parts.trials > 1:
        events.append(choice_mechanism(parts.choice, config.bounds, config.unit).event(parts.trials, seeded=seeded))
    return SequentialEvent.of(*events)


def private_kmeans(
    X: Any, config: PrivateKMeansConfig, *, rng: int | Source | None = None
) -> Released[PrivateKMeansResult]:
    """Release k centers of rows, with the noisy sums and counts they are made of.

    Parameters
    ----------
    X : array or sparse matrix of shape (users, items)
        One row per user. Rows are held to the bounds of `config`; an absent entry is a zero.
    config : PrivateKMeansConfig
        Every parameter; public.
    rng : int or Source, optional
        Nothing for the operating system's randomness; a seed makes the release repeatable and not private.

    Returns
    -------
    Released
        A `PrivateKMeansResult` with its event, which equals `planned_event` of the same public numbers.

    Paper
    -----
    Algorithm 3, ``private_prototypes``: project, candidates, swaps, partition, recovery, and a choice among trials.

    Privacy
    -------
    Pure ε for one row added or removed (the audit's theorem, 3.4). With E the parts of `config.split()`:

    * candidates, E_candidate: L1, L2, every child cell decided, ε' = E_candidate/(trees·depth) per level;
    * swaps, E_swap: L3, exponent E_swap/((swaps + 1)·4R²), points and candidates clipped to the R ball;
    * labels: free, since with the centers released a row's label depends on that row alone (L4);
    * sums, E_values: L5 and L6, Laplace scale B1/E_values (or the selected entries); counts, E_counts: scale
      1/E_counts. Clusters are disjoint, so the dearest one is the price;
    * T trials share all this equally, and one is chosen at E_choice, exponent E_choice/(4·R2²), rows and centers
      clipped to the R2 ball.

    Sequential composition adds the parts up to exactly ε. With a δ above 0 the sums may get Gaussian noise, (E_values,
    δ) by zCDP, and the whole is (ε, δ). Centers are computed from what was released. No row, one row,
    all-zero rows or fewer rows than clusters take the same path: to refuse them would tell them apart. Replace-one
    costs 2ε.

    Deviations
    ----------
    The theorem in the paper does not hold as written (audit, section 2). Everything that it computes from n is public
    here. The budget is shared, not given in full to each trial. Swaps start from k-means of the released cells. When
    public numbers say that noise would drown the centers, users are put in public buckets or in one cluster, and the
    result says so (`choose_mode`).

    Examples
    --------
    >>> rows = np.repeat(np.eye(3), 3000, axis=0)
    >>> config = PrivateKMeansConfig(n_clusters=3, epsilon=20, promised_users=9000, bound=1, max_items=1)
    >>> found = private_kmeans(rows, config).value
    >>> found.mode, sorted(found.centers.round(1).argmax(axis=1).tolist())
    ('chain', [0, 1, 2])
    """
    n_items = n_items_of(X)
    parts, noise = parts_of(config, n_items), source(rng)
    event = planned_event(config, n_items, seeded=noise.seeded)
    results = [run_trial(X, config, parts, number, noise) for number in range(parts.trials)]
    best = 0
    if parts.trials > 1:
        losses = trial_losses(X, [one.centers for one in results], config.bounds)
        best = choice_mechanism(parts.choice, config.bounds, config.unit).release(-losses, rng=noise).value
    return Released(value=results[best], event=event)
