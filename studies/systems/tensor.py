"""Federated tensor factorization by ADMM: patients x labs x medications. Iterative and not private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from studies.systems.base import Feedback, Fitted, Score, Traffic, read_as
from studies.systems.factorization import factor_bytes, item_means, rows_bytes
from twofold.csr import with_data
from twofold.data.catalog import Catalog
from twofold.data.federation import Federation
from twofold.errors import BadParameter

__all__ = ["TensorADMM", "sides", "tensor_error"]

Floats = NDArray[np.float64]
_SMALL: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class TensorADMM:
    """CP factors of patients x labs x medications; labs and medications agree over hospitals by consensus ADMM.

    Parameters
    ----------
    rank : int
        Components (phenotypes).
    iterations : int
        How often every hospital sends its factors of labs and medications, and gets the common ones back.
    penalty : float
        ADMM's μ over the mean curvature of the hospitals' own problems.
    ridge : float
        Added to every least-squares problem, over its mean curvature.
    pooled : bool
        All raw rows in one place instead, for comparison.

    Paper
    -----
    Kim, Sun, Yu and Jiang 2017, "Federated Tensor Factorization for Computational Phenotyping" (TRIP), named in
    section 3: patients' factors stay, factors of features travel in every iteration.

    Privacy
    -------
    None: factors fitted to raw counts leave in every iteration. Kim et al. argue that they are summaries; no bound on
    what they tell about a person is given or computed here.

    Deviations
    ----------
    An entry is the product of a patient's damped counts of a lab and of a medication, log(1 + count) each: the tensor
    is never written down. Factors are projected to be non-negative after each exact solve. Kim et al. harmonize codes
    between hospitals first; here the catalog is common. To recommend, a history's lab values are predicted from its
    medications and its factor, and the other way round; a history without one of the two sides is an empty slice, about
    which a tensor says nothing, and gets the mean of every item.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> system = TensorADMM(rank=2, iterations=3)
    >>> fitted = system.fit(hospitals.load(0.001), feedback="counts", seed=0)
    >>> fitted.rounds, fitted.bytes_up == 3 * (4 * 457 * 2 + 8), fitted.epsilon
    (9, True, None)
    """

    rank: int = 20
    iterations: int = 30
    penalty: float = 0.1
    ridge: float = 1e-3
    pooled: bool = False

    name: ClassVar[str] = "tensor factorization by ADMM"
    private: ClassVar[bool] = False

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Iterate; the common factors are last sent after the last mean."""
        if feedback != "counts":
            raise BadParameter("a tensor of labs and medications is made of counts.", found=f"{feedback!r:.40}")
        entities = read_as(train, feedback, seed)
        labs, meds = sides(entities.catalog)
        rows = [entities.pooled().matrix] if self.pooled else [one.matrix for one in entities.values()]
        B, C = self.common([_Part.of(one, labs, meds) for one in rows], seed)
        means = {label: item_means(one.matrix, "counts") for label, one in entities.items()}
        return Fitted(
            scorers={label: self._score(B, C, labs, meds, means[label]) for label in entities},
            traffic=self._traffic(entities),
            note="not private: raw rows leave"
            if self.pooled
            else "not private: factors of labs and medications, fitted to raw rows, leave in every iteration",
        )

    def _traffic(self, entities: Federation) -> Traffic:
        number, size = len(entities), factor_bytes(len(entities.catalog), self.rank)
        if self.pooled:
            raw = sum(rows_bytes(one.matrix) for one in entities.values())
            return Traffic(rounds=2, bytes_up=raw, bytes_down=number * size)
        # A start down, a first curvature up, its penalty down; later curvatures follow from own factors and ride along.
        return Traffic(
            rounds=2 * self.iterations + 3,
            bytes_up=self.iterations * number * (size + 8),  # factors, and the curvature that sets the penalty
            bytes_down=(self.iterations + 1) * number * size + self.iterations * number * 8,
        )

    def common(self, parts: list[_Part], seed: int) -> tuple[Floats, Floats]:
        """Factors of labs and of medications that all hospitals agree on."""
        rng = np.random.default_rng(seed)
        shapes = (parts[0].y.shape[1], parts[0].z.shape[1])
        B, C = (rng.uniform(0.0, 1.0, (size, self.rank)) / np.sqrt(self.rank) for size in shapes)
        own = [(B.copy(), C.copy(), np.zeros_like(B), np.zeros_like(C)) for _ in parts]
        for _ in range(self.iterations):
            curves, solved = [], []
            for part, (Bk, Ck, *_) in zip(parts, own, strict=True):
                A = self._patients(part, Bk, Ck)
                curves.append((A, (A.T @ A) * (Ck.T @ Ck)))
            mu = self._mu([curve for _, curve in curves])
            for part, (A, curve), (_, Ck, P, Q) in zip(parts, curves, own, strict=True):
                Bk = _solve(curve, part.y.T @ ((part.z @ Ck) * A), mu, B - P)
                other = (A.T @ A) * (Bk.T @ Bk)
                Ck2 = _solve(other, part.z.T @ ((part.y @ Bk) * A), mu, C - Q)
                solved.append((Bk, Ck2, P, Q))
            B = np.maximum(np.mean([Bk + P for Bk, _, P, _ in solved], axis=0), 0.0)
            C = np.maximum(np.mean([Ck + Q for _, Ck, _, Q in solved], axis=0), 0.0)
            own = [(Bk, Ck, P + Bk - B, Q + Ck - C) for Bk, Ck, P, Q in solved]
        return B, C

    def _mu(self, curves: list[Floats]) -> float:
        return self.penalty * float(np.mean([np.trace(one) for one in curves])) / self.rank + _SMALL

    def _patients(self, part: _Part, B: Floats, C: Floats) -> Floats:
        """Patients' factors, by least squares, given those of the features."""
        curve = (B.T @ B) * (C.T @ C)
        curve += (self.ridge * np.trace(curve) / self.rank + _SMALL) * np.eye(self.rank)
        return np.maximum(np.linalg.solve(curve, ((part.y @ B) * (part.z @ C)).T).T, 0.0)

    def _score(self, B: Floats, C: Floats, labs: NDArray[np.int64], meds: NDArray[np.int64], means: Floats) -> Score:
        def score(rows: sparse.csr_array) -> NDArray[np.float32]:
            part = _Part.of(rows, labs, meds)
            A, YB, ZC = self._patients(part, B, C), part.y @ B, part.z @ C
            found = np.tile(means, (rows.shape[0], 1))
            lengths = [np.asarray(side.multiply(side).sum(axis=1)).ravel() for side in (part.y, part.z)]
            spoken = (lengths[0] > 0) & (lengths[1] > 0)
            slices = ((labs, B, ZC, lengths[1]), (meds, C, YB, lengths[0]))
            for columns, factors, other, length in slices:
                guess = (A * other) @ factors.T / np.maximum(length, _SMALL)[:, None]
                found[np.ix_(spoken, columns)] = np.expm1(np.clip(guess[spoken], 0.0, 20.0))
            return found.astype(np.float32)

        return score


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """Damped counts of one hospital: patients x labs and patients x medications."""

    y: Any
    z: Any

    @classmethod
    def of(cls, rows: sparse.csr_array, labs: NDArray[np.int64], meds: NDArray[np.int64]) -> _Part:
        damped = with_data(rows, np.log1p(rows.data.astype(np.float64)))
        return cls(y=sparse.csr_array(damped[:, labs]), z=sparse.csr_array(damped[:, meds]))


def sides(catalog: Catalog) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Columns of labs and of medications, by the public column "kind" of the catalog.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> [len(side) for side in sides(hospitals.load(0.001).catalog)]
    [158, 299]
    """
    kinds: Any = [] if catalog.features is None or "kind" not in catalog.features.columns else catalog.features["kind"]
    labs = np.flatnonzero([kind == "lab" for kind in kinds])
    meds = np.flatnonzero([kind != "lab" for kind in kinds])
    if not labs.size or not meds.size:
        raise BadParameter("a tensor needs labs and medications.", expected="items of kind 'lab' and of another kind")
    return labs, meds


def tensor_error(parts: list[_Part], B: Floats, C: Floats, how: TensorADMM) -> float:
    """Squared error of the whole tensor, zeros included, over its squared length; patients' factors by least squares.

    The tensor of a patient is y zᵀ, so everything follows from inner products.
    """
    error = length = 0.0
    for part in parts:
        A, YB, ZC = how._patients(part, B, C), part.y @ B, part.z @ C
        norms = [np.asarray(side.multiply(side).sum(axis=1)).ravel() for side in (part.y, part.z)]
        squares = np.einsum("nr,rs,ns->n", A, (B.T @ B) * (C.T @ C), A)
        error += float((norms[0] * norms[1] - 2 * (A * YB * ZC).sum(axis=1) + squares).sum())
        length += float((norms[0] * norms[1]).sum())
    return error / max(length, _SMALL)


def _solve(curve: Floats, right: Any, mu: float, towards: Floats) -> Floats:
    """Minimize ½‖X - BKᵀ‖² + μ/2 ‖B - towards‖², KᵀK = curve."""
    system = curve + mu * np.eye(len(curve))
    return np.asarray(np.linalg.solve(system, (np.asarray(right) + mu * towards).T).T)
