"""Private k-means: the paper's chain from bounded rows to noisy sums and counts, pure ε, add or remove one row."""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms._private_kmeans_centers import choice_mechanism, trial_losses
from twofold.algorithms._private_kmeans_config import Mode, PrivateKMeansConfig, Shares, choose_mode, noise_energy
from twofold.algorithms._private_kmeans_trial import (
    PrivateKMeansResult,
    n_items_of,
    parts_of,
    run_trial,
    trial_events,
)
from twofold.algorithms.kmeans import assign
from twofold.errors import BadParameter, BadPrivacyParameter, PrivacyError
from twofold.privacy.budget import Number
from twofold.privacy.events import Event, SequentialEvent
from twofold.privacy.mechanisms import Released
from twofold.privacy.rng import Source, source

__all__ = [
    "Mode",
    "PrivateKMeans",
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


class PrivateKMeans:
    """The same in the manner of scikit-learn: parameters in, ``fit``, learned attributes that end in an underscore.

    Parameters
    ----------
    n_clusters, epsilon, delta, promised_users, bound, max_items, l1_bound, l2_bound, signed, keep, trials, seed,
    fallback
        As in `PrivateKMeansConfig`. There is no default for `promised_users` and `bound`: they are public promises.
    refit : bool
        Whether ``fit`` may be called again. Each call spends `epsilon` anew on whoever is in the data.
    rng : int or Source, optional
        Nothing for the operating system's randomness; a seed makes the release repeatable and not private.

    Attributes
    ----------
    cluster_centers_, cluster_sums_, cluster_counts_ : arrays
        What was released.
    mode_, reason_ : str
        How rows were put together, and why.
    event_ : Event
        What all calls of ``fit`` so far cost together.
    n_features_in_ : int
        Number of items.

    Privacy
    -------
    Only ``fit`` spends. ``predict`` gives the label of a row from that row and released centers; labels of private rows
    are private and must stay with their owner.

    Examples
    --------
    >>> rows = np.repeat(np.eye(3), 3000, axis=0)
    >>> model = PrivateKMeans(3, epsilon=20, promised_users=9000, bound=1, max_items=1).fit(rows)
    >>> len(set(model.predict(np.eye(3)).tolist()))
    3
    >>> model.fit(rows)
    Traceback (most recent call last):
    twofold.errors.PrivacyError: these parameters were fitted already, and fitting again would spend again...
    """

    cluster_centers_: NDArray[np.float64]
    cluster_sums_: NDArray[np.float64]
    cluster_counts_: NDArray[np.float64]
    mode_: Mode
    reason_: str
    event_: Event
    n_features_in_: int

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: Number = 1,
        delta: Number = 0,
        promised_users: int | None = None,
        bound: float | None = None,
        max_items: int | None = None,
        l1_bound: float | None = None,
        l2_bound: float | None = None,
        signed: bool = False,
        keep: int | None = None,
        trials: int = 1,
        seed: int = 0,
        fallback: bool = True,
        refit: bool = False,
        rng: int | Source | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.promised_users = promised_users
        self.bound = bound
        self.max_items = max_items
        self.l1_bound = l1_bound
        self.l2_bound = l2_bound
        self.signed = signed
        self.keep = keep
        self.trials = trials
        self.seed = seed
        self.fallback = fallback
        self.refit = refit
        self.rng = rng

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 (scikit-learn's signature)
        """Give the parameters by name."""
        return {name: getattr(self, name) for name in _parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; unknown names are refused."""
        unknown = sorted(set(parameters) - set(_parameter_names()))
        if unknown:
            raise BadParameter("there is no such parameter.", found=", ".join(unknown), expected=_names_in_words())
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 (scikit-learn's signature)
        """Release centers of the rows; refuses to spend a second time unless `refit` was set."""
        spent = getattr(self, "event_", None)
        if spent is not None and not self.refit:
            raise PrivacyError(
                "these parameters were fitted already, and fitting again would spend again.",
                fix="use the centers there are, or set_params(refit=True) to spend epsilon once more",
            )
        found = private_kmeans(X, self._config(), rng=self.rng)
        self.event_ = found.event if spent is None else SequentialEvent.of(spent, found.event)
        self.cluster_centers_, self.cluster_sums_ = found.value.centers, found.value.sums
        self.cluster_counts_ = found.value.counts
        self.mode_, self.reason_ = found.value.mode, found.value.reason
        self.n_features_in_ = found.value.centers.shape[1]
        return self

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Number of the nearest released center of each row."""
        if not hasattr(self, "cluster_centers_"):
            raise BadParameter("there are no centers yet.", fix="call fit first")
        return assign(X, self.cluster_centers_)

    def fit_predict(self, X: Any, y: object = None) -> NDArray[np.int32]:
        """Fit, then label the same rows."""
        return self.fit(X, y).predict(X)

    def _config(self) -> PrivateKMeansConfig:
        missing = [name for name in ("promised_users", "bound") if getattr(self, name) is None]
        if missing:
            raise BadPrivacyParameter(
                "public numbers are missing; they are never taken from the data.",
                found="nothing for " + " and ".join(missing),
                fix="PrivateKMeans(..., promised_users=1000, bound=5)",
            )
        given = {name: value for name, value in self.get_params().items() if name not in ("refit", "rng")}
        return PrivateKMeansConfig(**given)


def _parameter_names() -> list[str]:
    return [name for name in inspect.signature(PrivateKMeans.__init__).parameters if name != "self"]


def _names_in_words() -> str:
    return ", ".join(_parameter_names())
