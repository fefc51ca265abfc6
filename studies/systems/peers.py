"""Other libraries on all rows: implicit, cmfrec and LensKit, if installed."""

from __future__ import annotations

import contextlib
import importlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from studies.systems.base import Feedback, Fitted, Score, Traffic, read_as
from studies.systems.factorization import factor_bytes, rows_bytes
from twofold.data.federation import Federation
from twofold.errors import BadParameter, TwofoldError

__all__ = ["PEERS", "Peer", "installed"]

Floats = NDArray[Any]

#: Libraries, with how to install each.
PEERS: Final = {
    "implicit": "pip install 'twofold[bench]'",
    "cmfrec": "pip install 'twofold[bench]'",
    "lenskit": "pip install 'twofold[bench-lenskit]'",
}


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Alternating least squares of another library, on the pooled matrix.

    Parameters
    ----------
    library : {"implicit", "cmfrec", "lenskit"}
        Which one.
    rank, iterations : int
        Number of factors and of iterations.
    regularization : float, optional
        The library's own default when not given.

    Paper
    -----
    Not in it. implicit: Hu, Koren and Volinsky 2008. cmfrec: Cortes 2018. LensKit: Ekstrand 2020.

    Privacy
    -------
    None: raw rows leave every entity.

    Deviations
    ----------
    Ratings: cmfrec's CMF and LensKit's BiasedMFScorer predict ratings. Counts: cmfrec's CMF_implicit and LensKit's
    ImplicitMFScorer. implicit takes either as confidence. The scores of the implicit models are preferences, near 0
    and 1: they rank, and an RMSE of them means nothing.

    Examples
    --------
    >>> Peer(library="implicit").name
    'implicit ALS'
    >>> Peer(library="magic")
    Traceback (most recent call last):
    twofold.errors.BadParameter: this library is unknown...
    """

    library: str
    rank: int = 20
    iterations: int = 15
    regularization: float | None = None

    def __post_init__(self) -> None:
        if self.library not in PEERS:
            raise BadParameter("this library is unknown.", found=f"{self.library!r:.40}", expected=", ".join(PEERS))

    @property
    def name(self) -> str:
        """Name in tables."""
        return {"implicit": "implicit ALS", "cmfrec": "cmfrec", "lenskit": "LensKit ALS"}[self.library]

    private: ClassVar[bool] = False

    @property
    def installed(self) -> bool:
        """Whether it can be fitted here."""
        return installed(self.library)

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Fit the library to all rows; if it is missing, the error says what to install."""
        entities = read_as(train, feedback, seed)
        if not self.installed:
            raise TwofoldError(f"{self.library} is not installed.", fix=PEERS[self.library])
        rows = entities.pooled().matrix.astype(np.float32)
        score = _quietly(lambda: _FITS[self.library](rows, self, feedback, seed))
        return Fitted(
            scorers=dict.fromkeys(entities, lambda block: _quietly(lambda: score(block))),
            traffic=Traffic(
                rounds=2,
                bytes_up=sum(rows_bytes(one.matrix) for one in entities.values()),
                bytes_down=len(entities) * factor_bytes(rows.shape[1], self.rank),
            ),
            note="raw rows of everybody in one place; bytes down count item factors only",
        )


def installed(library: str) -> bool:
    """Whether a library can be imported; its output and warnings are suppressed.

    Examples
    --------
    >>> installed("no_such_library")
    False
    """
    try:
        _quietly(lambda: importlib.import_module(library))
    except Exception:  # one that fails to import for any reason is as good as missing
        return False
    return True


def _quietly(job: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        return job()


def _implicit(rows: sparse.csr_array, peer: Peer, feedback: Feedback, seed: int) -> Score:  # noqa: ARG001
    als = importlib.import_module("implicit.cpu.als")
    penalty = 0.01 if peer.regularization is None else peer.regularization
    # one thread: its threads take rows as they come, and the sums of their gradients differ from run to run
    model = als.AlternatingLeastSquares(
        factors=peer.rank, regularization=penalty, iterations=peer.iterations, random_state=seed, num_threads=1
    )
    model.fit(sparse.csr_matrix(rows), show_progress=False)

    def score(block: sparse.csr_array) -> Floats:
        users = model.recalculate_user(np.arange(block.shape[0]), sparse.csr_matrix(block.astype(np.float32)))
        return np.asarray(users @ model.item_factors.T)

    return score


def _cmfrec(rows: sparse.csr_array, peer: Peer, feedback: Feedback, seed: int) -> Score:
    cmfrec = importlib.import_module("cmfrec")
    common: dict[str, Any] = {"k": peer.rank, "niter": peer.iterations, "random_state": seed, "nthreads": 1}
    common |= {"verbose": False, "handle_interrupt": False}
    if peer.regularization is not None:
        common["lambda_"] = peer.regularization
    if feedback == "counts":
        model = cmfrec.CMF_implicit(**common)
        model.fit(sparse.coo_matrix(rows))
        return lambda block: np.asarray(
            model.factors_multiple(sparse.csr_matrix(block.astype(np.float32))) @ model.B_.T
        )
    # its advice for ratings: a penalty of about 0.05 to 0.1 when scaled by entries, 10 when not
    model = cmfrec.CMF(**({"lambda_": 0.08} | common), scale_lam=True)
    model.fit(sparse.coo_matrix(rows))

    def score(block: sparse.csr_array) -> Floats:
        users, bias = model.factors_multiple(sparse.csr_matrix(block.astype(np.float32)), return_bias=True)
        return np.asarray(users @ model.B_.T + bias[:, None] + model.item_bias_ + model.glob_mean_)

    return score


def _lenskit(rows: sparse.csr_array, peer: Peer, feedback: Feedback, seed: int) -> Score:
    als, data = importlib.import_module("lenskit.als"), importlib.import_module("lenskit.data")
    training, pandas = importlib.import_module("lenskit.training"), importlib.import_module("pandas")
    kind = als.BiasedMFScorer if feedback == "ratings" else als.ImplicitMFScorer
    named = {} if peer.regularization is None else {"regularization": peer.regularization}
    model = kind(embedding_size=peer.rank, epochs=peer.iterations, **named)
    users = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    table = pandas.DataFrame({"user_id": users, "item_id": rows.indices, "rating": rows.data})
    model.train(data.from_interactions_df(table), training.TrainingOptions(rng=seed))
    everything = data.ItemList(item_ids=np.arange(rows.shape[1]))
    base = float(rows.data.mean()) if feedback == "ratings" and rows.nnz else 0.0

    def one(columns: Floats, values: Floats) -> Floats:
        history = data.ItemList(item_ids=columns, rating=values)
        return np.asarray(model(data.RecQuery(user_items=history), everything).scores())

    def score(block: sparse.csr_array) -> Floats:
        spans = [slice(*block.indptr[row : row + 2]) for row in range(block.shape[0])]
        found = [one(block.indices[span], block.data[span]) for span in spans]
        return np.asarray(np.nan_to_num(np.array(found).reshape(block.shape), nan=base))  # items it never saw

    return score


_FITS: Final[dict[str, Callable[[sparse.csr_array, Peer, Feedback, int], Score]]] = {
    "implicit": _implicit,
    "cmfrec": _cmfrec,
    "lenskit": _lenskit,
}
