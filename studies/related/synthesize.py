"""Run by the Python of .venv-synth: noisy tables of a tree in, synthetic rows out, by Private-PGM (mbi).

``python synthesize.py IN.npz OUT.npz``. IN has edges (e, 2), tables (e, 2, 2), deviation, rows, items and seed; OUT has
the columns and row starts of a 0/1 matrix. Nothing private comes here: everything in IN was released.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np


def main() -> None:
    """Fit the graphical model and draw rows."""
    warnings.simplefilter("ignore")
    import jax

    jax.config.update("jax_enable_x64", True)
    import mbi

    given = np.load(sys.argv[1])
    np.random.seed(int(given["seed"]))  # noqa: NPY002 -- mbi draws from the global generator
    items, rows = int(given["items"]), int(given["rows"])
    domain = mbi.Domain([f"i{item}" for item in range(items)], [2] * items)
    measured = [
        mbi.LinearMeasurement(table.ravel(), (f"i{a}", f"i{b}"), stddev=float(given["deviation"]))
        for (a, b), table in zip(given["edges"], given["tables"], strict=True)
    ]
    model = mbi.estimation.MirrorDescent().estimate(domain, measured, known_total=float(rows), iters=300)
    data = model.synthetic_data(rows=rows, method="sample")
    table = np.column_stack([np.asarray(data.to_dict()[f"i{item}"]) for item in range(items)])
    places = np.nonzero(table)
    starts = np.concatenate([[0], np.cumsum((table != 0).sum(axis=1))])
    np.savez(sys.argv[2], columns=places[1], starts=starts)


if __name__ == "__main__":
    main()
