"""Synthetic rows in place of prototypes: noisy marginals, a graphical model of them, rows drawn from it."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
from scipy import sparse

from studies.related.marginals import noisy_marginals, planned_event, tree_of, tree_tables
from studies.systems.base import Feedback, Fitted, Traffic, read_as
from studies.systems.exchange import Release, entity_seed
from studies.systems.factorization import Factorization, factor_bytes, rows_bytes
from twofold.data.federation import Federation
from twofold.errors import BadParameter, MissingExtra
from twofold.privacy.budget import ApproxDP
from twofold.privacy.events import is_seeded
from twofold.release.contract import ReleaseParameters

__all__ = ["PYTHON", "SyntheticRows", "draw_rows", "synthesizer_installed"]

_ROOT: Final = Path(__file__).parents[2]
#: The Python of the synthesizer's own environment.
PYTHON: Final = _ROOT / ".venv-synth" / "bin" / "python"
_SCRIPT: Final = _ROOT / "studies" / "related" / "synthesize.py"
_MOST_ROWS: Final = 4  # times the promised users: what a noisy count may ask for


@dataclass(frozen=True, kw_only=True)
class SyntheticRows:
    """Every entity sends drawn rows that resemble its own; the server factorizes all of them.

    Parameters
    ----------
    release : Release
        Its ε, δ (1e-6 unless given), `max_items` and `n_users`.
    factorization : Factorization
        Rank at the server, and the objective by which users are folded in.

    Paper
    -----
    Section 4.2 names "differentially private dataset synthesis methods", as unsuited to many dimensions and sending
    much. The model is Private-PGM (McKenna, Sheldon and Miklau 2019; library mbi) on a tree of the pairs with the
    most noisy mutual information, no item in more than five of them.

    Privacy
    -------
    (ε, δ) per entity: one discrete Gaussian event over the number of people, items and all pairs
    (`studies.related.marginals`). Tree, model and rows are post-processing, also the number of rows, which is the noisy
    one.

    Deviations
    ----------
    Presence, not counts. All pairs are measured at once and the tree is chosen afterwards; the usual choice by the
    exponential mechanism would share ε over as many picks as there are items.

    Examples
    --------
    >>> SyntheticRows(release=Release(epsilon=1)).name
    'MF + synthetic rows'
    """

    release: Release = field(default_factory=Release)
    factorization: Factorization = field(default_factory=Factorization)

    name: ClassVar[str] = "MF + synthetic rows"
    private: ClassVar[bool] = True

    def public(self, train: Federation) -> ReleaseParameters:
        """Public numbers of every entity's release."""
        asked, items = self.release, len(train.catalog)
        return ReleaseParameters(
            n_items=items,
            n_users=asked.n_users or 1000,
            max_items=min(asked.max_items or 66, items),
            bound=1,
            epsilon=asked.epsilon,
            delta=asked.delta or "1e-6",
            n_entities=len(train),
        )

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Release once per entity, draw rows, factorize, fold in."""
        if feedback != "counts":
            raise BadParameter("synthetic rows say what people have, not how they rate it.", found=f"{feedback!r:.40}")
        entities, sent = read_as(train, feedback, seed), []
        public = self.public(entities)
        for label, one in entities.items():
            own = entity_seed(seed, str(label))
            found = noisy_marginals(one.matrix, public, rng=own).value
            edges = tree_of(found)
            rows = int(np.clip(round(found.people), 1, _MOST_ROWS * public.n_users))
            tables = tree_tables(found, edges[:, 0], edges[:, 1])
            sent.append(draw_rows(edges, tables, 2 * found.deviation, rows=rows, items=public.n_items, seed=own))
        stacked = sparse.csr_array(sparse.vstack(sent))
        V = self.factorization.item_factors(stacked, feedback=feedback, seed=seed)
        event = planned_event(public, seeded=True)
        assert is_seeded(event)  # an experiment: priced as if its noise had come from the operating system
        return Fitted(
            scorers=dict.fromkeys(entities, self.factorization.score(V, feedback=feedback)),
            traffic=Traffic(
                rounds=2,
                bytes_up=sum(rows_bytes(one) for one in sent),
                bytes_down=len(entities) * factor_bytes(*V.shape),
            ),
            promise=ApproxDP(epsilon=public.epsilon, delta=public.delta),
            event=event,
            note="scores are of presence: they rank, and are not counts",
        )


def synthesizer_installed() -> bool:
    """Whether the environment of the synthesizer is there (make synth)."""
    return PYTHON.exists()


def draw_rows(
    edges: np.ndarray, tables: np.ndarray, deviation: float, *, rows: int, items: int, seed: int
) -> sparse.csr_array:
    """Rows of presence drawn from the graphical model of noisy tables, by the library in its own environment."""
    if not synthesizer_installed():
        raise MissingExtra("the synthesizer is not installed.", expected=".venv-synth with mbi", fix="make synth")
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(given, edges=edges, tables=tables, deviation=deviation, rows=rows, items=items, seed=seed % 2**32)
        subprocess.run([str(PYTHON), str(_SCRIPT), str(given), str(made)], check=True, capture_output=True)
        found = np.load(made)
        ones = np.ones(len(found["columns"]), dtype=np.float32)
        return sparse.csr_array((ones, found["columns"], found["starts"]), shape=(rows, items))
