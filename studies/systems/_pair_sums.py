r"""Sums of products of items over people, with exact noise: the private covariance of McSherry and Mironov.

Privacy
-------
A person's vector y is put on a grid and capped in whole numbers: \|y\|_1 ≤ A and \|y\|_2² ≤ B. Adding or removing the
person moves the upper triangle of Σ y yᵀ by exactly the products y_i y_j, i ≤ j, in integers. Their l1 norm is
(\|y\|_1² + \|y\|_2²)/2 ≤ (A² + B)/2, and their squared l2 norm Σ_{i≤j} y_i² y_j² ≤ (Σ y_i²)² ≤ B². A vector is made of
the person's own row and of numbers that are public or were released before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.csr import with_data
from twofold.privacy.budget import ZCDP, PureDP, exact
from twofold.privacy.events import Released
from twofold.privacy.grid import Grid, Integers, cap_l1, cap_l2
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian
from twofold.privacy.mechanisms.laplace import DiscreteLaplace
from twofold.privacy.rng import Source
from twofold.privacy.unit import Unit
from twofold.release.cells import laplace_deviation

__all__ = ["PairSums"]

_BITS = 10  # a whole vector's norm is about 2^10 steps, so that products of a billion people stay below 2^61


@dataclass(frozen=True, kw_only=True)
class PairSums:
    """One release of the upper triangle of Σ y yᵀ.

    Parameters
    ----------
    l1, l2 : float
        Public caps on the norms of a person's vector.
    budget : PureDP or ZCDP
        What it may spend: Laplace or Gaussian noise.
    unit : Unit
        Whose presence is hidden.

    Examples
    --------
    >>> sums = PairSums(l1=2.0, l2=1.0, budget=PureDP(epsilon=1), unit=Unit.person())
    >>> sums.mechanism.sensitivity, sums.grid.step
    (Fraction(655360, 1), Fraction(1, 512))
    """

    l1: float
    l2: float
    budget: PureDP | ZCDP
    unit: Unit

    @property
    def grid(self) -> Grid:
        """Grid of the vectors; products are on its square."""
        return Grid(exponent=math.frexp(self.l2)[1] - _BITS)

    @property
    def _limits(self) -> tuple[int, int]:
        """A and B of the module docstring, in grid units."""
        step = self.grid.step
        return max(1, math.floor(exact(self.l1) / step)), max(1, math.floor((exact(self.l2) / step) ** 2))

    @property
    def mechanism(self) -> DiscreteLaplace | DiscreteGaussian:
        """What draws the noise."""
        most, square = self._limits
        grid = Grid(exponent=2 * self.grid.exponent)
        if isinstance(self.budget, PureDP):
            return DiscreteLaplace(
                epsilon=self.budget.epsilon, sensitivity=(most**2 + square) // 2, unit=self.unit, grid=grid
            )
        return DiscreteGaussian(rho=self.budget.rho, sensitivity_squared=square**2, unit=self.unit, grid=grid)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of one product, in the units of the products."""
        mechanism = self.mechanism
        if isinstance(mechanism, DiscreteGaussian):
            return math.sqrt(mechanism.variance) * float(mechanism.grid.step)
        return laplace_deviation(float(mechanism.scale)) * float(mechanism.grid.step)

    def exact(self, vectors: sparse.csr_array) -> Integers:
        """Upper triangle of the sums of products, in whole numbers. Private until noise is added."""
        most, square = self._limits
        starts = vectors.indptr.astype(np.int64)
        capped = cap_l1(self.grid.put(vectors.data), starts, limit=most)
        capped = cap_l2(capped, starts, limit_squared=square)
        whole = with_data(vectors, capped)
        products = (whole.T @ whole).toarray()
        return np.asarray(products[np.triu_indices(vectors.shape[1])], dtype=np.int64)

    def release(self, vectors: sparse.csr_array, *, rng: Source) -> Released[Integers]:
        """Add noise to the sums of the people in `vectors` (people, items)."""
        return self.mechanism.release(self.exact(vectors), rng=rng)

    def matrix(self, triangle: Integers, n_items: int) -> NDArray[np.float64]:
        """Whole symmetric matrix in the units of the products.

        Examples
        --------
        >>> sums = PairSums(l1=2.0, l2=1.0, budget=PureDP(epsilon=1), unit=Unit.person())
        >>> sums.matrix(np.array([1, 2, 3]) << 18, 2).tolist()
        [[1.0, 2.0], [2.0, 3.0]]
        """
        full = np.zeros((n_items, n_items))
        full[np.triu_indices(n_items)] = triangle * float(self.mechanism.grid.step)
        return np.asarray(full + np.triu(full, 1).T)
