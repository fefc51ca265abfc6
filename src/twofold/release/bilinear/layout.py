r"""The layout of a bilinear release: positions and units of its numbers, and how far one user can move them.

A user's record is one vector of whole numbers in four parts, side by side:

* *sums*: the row, times a weight (for ratings shortened together with the next part, by one factor);
* *observed* (ratings only): a mark for every observed item, times the same weight;
* *count*: a weight, always;
* *pairs*: all products of the row z with a second vector s: the row itself (gram, the upper triangle with the
  diagonal), a public random map of it (sketch), or its profile over public features (features). On the diagonal of a
  gram of counts stands :math:`d_i = \lfloor 70 z_i^2 / 99 \rfloor` in place of :math:`z_i^2`.

A row of counts has one length, that of a unit row (`unit_rows`); one of ratings is only shortened to a cap.

Privacy
-------
With :math:`\|z\|_2^2 \le L`, :math:`|z_i| \le E` (ratings) and :math:`\|s\|_2^2 \le L_s`, which `row_blocks` and
`profiles` enforce in integer arithmetic. For gram, ratings:

.. math:: \sum_{i \le j} (z_i z_j)^2 = \frac{1}{2} \Big(\big(\sum_i z_i^2\big)^2 + \sum_i z_i^4\Big)
          \le \frac{L^2 + E^2 L}{2} .

For gram, counts: :math:`70^2 / 99^2 = 4900/9801 < 1/2`, so :math:`d_i^2 \le z_i^4 / 2` and, whatever the entries are,

.. math:: \sum_{i < j} (z_i z_j)^2 + \sum_i d_i^2
          \le \frac{1}{2} \Big(\big(\sum_i z_i^2\big)^2 - \sum_i z_i^4\Big) + \frac{1}{2} \sum_i z_i^4
          \le \frac{L^2}{2} .

For the others :math:`\sum_{i, j} (z_i s_j)^2 = \|z\|_2^2 \|s\|_2^2 \le L L_s`. The base record (row and marks) has a
squared norm of at most :math:`L_0` before its weight w, so the whole has at most :math:`w^2 L_0 + w_c^2` plus the bound
of the pairs: a whole number, `BilinearLayout.sensitivity`. In l1, with :math:`\|z\|_1 \le B`,
:math:`\|z\|_2^2 \le L` and :math:`\|s\|_1 \le B_s`, the pairs have at most

.. math:: \sum_{i \le j} |z_i z_j| = (\|z\|_1^2 + \|z\|_2^2)/2 \le (B^2 + L)/2, \qquad
          \sum_{i, j} |z_i s_j| \le B B_s ,

and for gram of counts :math:`\sum_{i<j} |z_i z_j| + \sum_i d_i \le (\|z\|_1^2 - \|z\|_2^2)/2 + 70 \|z\|_2^2 / 99
= \|z\|_1^2 / 2 + 41 \|z\|_2^2 / 198 \le B^2/2 + 41 L / 198`.

Products are exact and nothing is rounded after the caps, but the diagonal of counts, and that downwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from twofold.errors import BadParameter, Set
from twofold.privacy.budget import Number, exact
from twofold.release.content import DIAGONAL, Kind
from twofold.release.contract import ReleaseParameters

__all__ = ["KINDS", "MOST_NUMBERS", "MOST_PAIRED", "BilinearLayout", "row_cap", "typical_items"]

KINDS: Final[tuple[Kind, ...]] = ("gram", "sketch", "features")
#: Numbers of one message; a Gram matrix of about 8,000 items.
MOST_NUMBERS: Final = 1 << 25
#: Longest catalog whose pairs an entity with counts can use: up to here it makes whole tables of items by items, 4
#: bytes x items² each (`twofold.entity.models.item_item`). All pairs of a longer one would be paid for in vain.
MOST_PAIRED: Final = 6_000

# An entry of a full row of equal entries fills about 7 bits: rounding it costs below half a percent.
_ENTRY: Final = 128
# But no more than this for the whole row, so that products have 24 bits and sums over 2^30 people fit.
_LARGEST_NORM: Final = 1 << 12
# Longer rows of ratings are shortened to the norm of this many entries. Noise grows with the cap and long rows gain
# little: with 91 entries (films) in the middle row, caps of 6 to 10 did alike and 20 far worse. In l1 the limit of a
# unit row of counts is that of as many equal entries.
_TYPICAL_ITEMS: Final = 64
_USUAL: Final = 0.25  # typical deviation of a rating, of the range of values
# A cap further than this from the largest entry has no use, and numbers that overflow only where there are users.
_CAP_RANGE: Final = 1_000_000
# Share of the squared norm (of the norm, in l1) that is not for pairs. Sums are far clearer than pairs, so counts leave
# them a tenth; ratings need them as item biases, and research found half to be good.
_BASE_SHARE: Final = {"counts": Fraction(1, 10), "ratings": Fraction(1, 2)}
# Of the base, for the number of users: one number that many others are divided by.
_COUNT_SHARE: Final = Fraction(1, 10)
# A mark's size in units of a typical rating deviation. The error of a mean S/O is least at the root of its own size.
_MARK: Final = Fraction(1, 2)


@dataclass(frozen=True, kw_only=True)
class BilinearLayout:
    """Places, units and bound of a bilinear release; a function of public numbers alone.

    Parameters
    ----------
    kind : {"gram", "sketch", "features"}
        What the second vector is.
    l2 : bool
        True for Gaussian noise: limits are squared l2 norms. Else l1 norms.
    n_items, columns : int
        Items, and length of the second vector (for gram the items).
    cap : float
        Largest norm of a row x; a longer one is shortened to it. 1 for counts, whose rows all have that norm.
    norm : int
        Whole number that `cap` becomes: the row z has a squared norm of at most norm².
    entry_limit : int
        Ratings: largest size of an entry of z before the row is shortened, by the bounds of the values; afterwards
        ``norm`` is one as well. Counts: ``norm``.
    row_limit : int
        Largest l1 norm of z; enforced where noise is Laplace.
    profile_norm : int
        Largest norm of the second vector (l1 where noise is Laplace); 1 for gram, which has none of its own.
    mark : int
        What an observed item counts in the base record; 0 for counts.
    base_limit, base_weight, count_weight : int
        Limit of the base record before its weight; the weights.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=4, n_users=9, max_items=4, bound=1, epsilon=1, delta=1e-6)
    >>> layout = BilinearLayout.of(public, "gram")
    >>> layout.length, layout.pairs, layout.norm, layout.cap
    (15, slice(5, 15, None), 4096, 1.0)
    >>> layout.unit_rows, layout.pair_limit == layout.norm**4 // 2
    (True, True)
    >>> layout.sensitivity == layout.pair_limit + layout.base_weight**2 * layout.norm**2 + layout.count_weight**2
    True
    """

    kind: Kind
    l2: bool
    n_items: int
    columns: int
    cap: float
    norm: int
    entry_limit: int
    row_limit: int
    profile_norm: int
    mark: int
    base_limit: int
    base_weight: int
    count_weight: int

    @classmethod
    def of(cls, public: ReleaseParameters, kind: Kind, *, base_share: Number | None = None) -> BilinearLayout:
        """Lay out a release.

        Parameters
        ----------
        public : ReleaseParameters
            The release.
        kind : {"gram", "sketch", "features"}
            What the pairs are.
        base_share : number, optional
            Share of the squared norm (l1: of the norm) for sums, observations and count; 1/10 for counts, 1/2 for
            ratings.

        Examples
        --------
        >>> stars = {"bound": 5, "lower": 1, "centre": 3, "feedback": "ratings"}
        >>> public = ReleaseParameters(n_items=4, n_users=9, max_items=4, **stars)
        >>> BilinearLayout.of(public, "sketch").length
        49
        """
        columns = _columns(public, kind)
        l2, items = public.law == "gaussian", public.row_items
        counts = public.feedback == "counts"
        # Entries of a unit row of counts may be far apart in size, so these get all the room there is.
        norm = _LARGEST_NORM if counts else min(_LARGEST_NORM, _power_of_two(_ENTRY * (math.isqrt(items - 1) + 1)))
        length, largest = row_cap(public), public.bound - public.lower
        if not counts:
            _check_cap(length, largest)
        row_limit = math.isqrt(typical_items(public) * norm**2)
        # In l1 all entries of a second vector share its norm, so it is larger.
        wide = _power_of_two(_ENTRY * (math.isqrt(columns - 1) + 1 if l2 else columns))
        profile = 1 if kind == "gram" else wide
        mark, base_limit = _base(public, norm, norm**2 if l2 else row_limit, length)
        entry = norm if counts else max(1, min(math.ceil(exact(largest) * norm / exact(length)), norm << 20))
        made = cls(
            kind=kind,
            l2=l2,
            n_items=public.n_items,
            columns=columns,
            cap=length,
            norm=norm,
            entry_limit=entry,
            row_limit=row_limit,
            profile_norm=profile,
            mark=mark,
            base_limit=base_limit,
            base_weight=1,
            count_weight=1,
        )
        share, root = _share(public, base_share), math.isqrt if l2 else int
        room = made.pair_limit * share / (1 - share)
        base, count = room * (1 - _COUNT_SHARE) / base_limit, room * _COUNT_SHARE
        return replace(made, base_weight=max(1, root(math.floor(base))), count_weight=max(1, root(math.floor(count))))

    @property
    def gram(self) -> bool:
        """Whether pairs are the upper triangle of a square."""
        return self.kind == "gram"

    @property
    def unit_rows(self) -> bool:
        """Whether all rows have one norm and the diagonal of a gram is smaller by 70/99: those of counts."""
        return not self.mark

    @property
    def largest(self) -> int:
        """Largest size of one number in one user's record."""
        pair = self.norm * (self.norm if self.gram else self.profile_norm)
        return max(pair, self.count_weight, self.base_weight * self.norm, self.base_weight * self.mark)

    @property
    def pair_limit(self) -> int:
        """Largest squared l2 norm (l1 norm) of the pairs of one user: whole, so parts of a unit are dropped."""
        limit, row = self.norm**2, self.row_limit
        if not self.gram:
            return limit * self.profile_norm**2 if self.l2 else row * self.profile_norm
        if self.unit_rows:
            return limit**2 // 2 if self.l2 else math.floor(Fraction(row**2, 2) + (DIAGONAL - Fraction(1, 2)) * limit)
        return (limit**2 + min(self.entry_limit, self.norm) ** 2 * limit) // 2 if self.l2 else (row**2 + limit) // 2

    @property
    def sensitivity(self) -> int:
        """Largest squared l2 norm (l1 norm) of one user's whole record, exact."""
        power = 2 if self.l2 else 1
        base = int(self.base_weight**power) * self.base_limit + int(self.count_weight**power)
        return self.pair_limit + base

    @property
    def sums(self) -> slice:
        """Position of the sums."""
        return slice(0, self.n_items)

    @property
    def observed(self) -> slice:
        """Position of the observations; empty for counts."""
        return slice(self.n_items, self.n_items * (2 if self.mark else 1))

    @property
    def count(self) -> slice:
        """Position of the number of users."""
        return slice(self.observed.stop, self.observed.stop + 1)

    @property
    def pairs(self) -> slice:
        """Position of the pairs."""
        return slice(self.count.stop, self.length)

    @property
    def length(self) -> int:
        """Number of released numbers."""
        return int(self.count.stop) + _pair_length(self.n_items, self.columns, self.kind)

    @property
    def sums_unit(self) -> float:
        """Value of one unit of the sums, in units of x."""
        return self.cap / (self.norm * self.base_weight)

    @property
    def observed_unit(self) -> float:
        """Value of one unit of the observations, in users; 0 for counts."""
        return 1 / (self.mark * self.base_weight) if self.mark else 0.0

    @property
    def count_unit(self) -> float:
        """Value of one unit of the count, in users."""
        return 1 / self.count_weight

    @property
    def pairs_unit(self) -> float:
        """Value of one unit of the pairs, in units of x·x (gram) or x·s with s of norm at most 1."""
        step = self.cap / self.norm
        return step * step if self.gram else step / self.profile_norm


def _check_cap(cap: float, largest: float) -> None:
    """Refuse a cap so far from the values that whole numbers would overflow or vanish."""
    if not (math.isfinite(cap) and largest / _CAP_RANGE <= cap <= largest * _CAP_RANGE):
        raise BadParameter(
            "the largest norm of a row does not fit the bounds of its values.",
            found=f"{cap:g} for entries of size up to {largest:g}",
            expected=f"within a factor of {_CAP_RANGE:,} of the largest entry",
            fix="leave l2_cap out, or correct the bounds",
            parameter="l2_cap",
        )


def row_cap(public: ReleaseParameters) -> float:
    """Norm that rows x are held to: 1 for counts; for ratings ``l2_cap``, else that of `typical_items` typical entries.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=500, n_users=9, max_items=457, bound=5)
    >>> row_cap(public), row_cap(public.with_(feedback="ratings", lower=1, centre=3))
    (1.0, 8.0)
    """
    if public.feedback == "counts":
        return 1.0
    if public.l2_cap is not None:
        return float(public.l2_cap)
    return math.sqrt(typical_items(public)) * (public.bound - public.lower) * _USUAL


def typical_items(public: ReleaseParameters) -> int:
    """Equal entries before a row (of counts: in l1) is shortened: three roots of the catalog, 10 to 64, in `row_items`.

    Examples
    --------
    >>> typical_items(ReleaseParameters(n_items=3883, n_users=9, max_items=4000, bound=5))
    64
    """
    return min(public.row_items, max(10, 3 * math.isqrt(public.n_items)), _TYPICAL_ITEMS)


def _columns(public: ReleaseParameters, kind: Kind) -> int:
    if kind not in KINDS:
        raise BadParameter(
            "this kind of pairs is unknown.", found=repr(kind), expected=", ".join(KINDS), parameter="kind"
        )
    if kind == "features" and public.features is None:
        raise BadParameter(
            "the mechanism 'features' needs a public table of what the items are.",
            found="none",
            expected="one row of whole numbers per item of the catalog",
            fix="give the plan a table of features, or use mechanism 'gram' or 'sketch'",
            parameter="features",
        )
    if kind == "features" and public.features is not None:
        columns = public.features.n_features
    else:
        columns = public.n_items if kind == "gram" else public.n_prototypes
    numbers = _pair_length(public.n_items, columns, kind)
    vain = kind == "gram" and public.feedback == "counts" and public.n_items > MOST_PAIRED
    if vain or numbers > MOST_NUMBERS:
        raise _too_large(public, kind, numbers, vain=vain)
    return columns


def _too_large(public: ReleaseParameters, kind: Kind, numbers: int, *, vain: bool) -> BadParameter:
    """Refuse a message with what a catalog of this length can be released by instead, and its size."""
    rows = public.n_items * (2 if public.feedback == "ratings" else 1) + 1
    widths: dict[str, int] = {} if public.features is None else {"features": public.features.n_features}
    columns = min(public.n_prototypes, MOST_NUMBERS // public.n_items)
    widths |= {"sketch": columns} if columns else {}
    sizes = {name: rows + public.n_items * w for name, w in widths.items() if public.n_items * w <= MOST_NUMBERS}
    if not public.summed:  # prototypes cannot be added up under masks
        sizes["popularity"] = rows
    fixes = [Set("mechanism", name) for name in sizes if name != kind]
    if kind == "sketch" and columns:
        fixes.insert(0, Set("n_prototypes", columns))
    possible = ", ".join(f"{name} {8 * size:,} bytes" for name, size in sizes.items())
    most = f"{MOST_PAIRED:,} items, whose pairs an entity can use" if vain else f"{MOST_NUMBERS:,} numbers"
    return BadParameter(
        f"a message of kind {kind!r} would be too large.",
        found=f"{numbers:,} numbers for {public.n_items:,} items, {8 * numbers:,} bytes",
        expected=f"at most {most}" + (f"; possible: {possible}" if possible else ""),
        fix=tuple(fixes) or "a shorter catalog",
        parameter="mechanism",
    )


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _base(public: ReleaseParameters, norm: int, limit: int, cap: float) -> tuple[int, int]:
    """Give the mark of an observation and the limit of row and marks together."""
    if public.feedback == "counts":
        return 0, limit
    mark = max(1, round(_MARK * exact((public.bound - public.lower) * _USUAL) * norm / exact(cap)))
    return mark, math.floor(limit * (1 + (_MARK**2 if public.law == "gaussian" else _MARK)))


def _pair_length(items: int, columns: int, kind: Kind) -> int:
    return items * (items + 1) // 2 if kind == "gram" else items * columns


def _share(public: ReleaseParameters, given: Number | None) -> Fraction:
    share = _BASE_SHARE[public.feedback] if given is None else exact(given, name="base_share")
    if not 0 < share < 1:
        raise BadParameter("base_share is out of range.", found=str(share), expected="above 0 and below 1")
    return share
