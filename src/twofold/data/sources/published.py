"""The published data sets: their names, their licences and where twofold looks for them.

Nothing is downloaded. A data set that is not there gets an error with its page, its licence and its folder.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twofold.errors import MissingDataset

__all__ = ["EICU", "MOVIELENS", "Published", "find_folder", "find_table", "need_table"]

VARIABLE: Final = "TWOFOLD_DATA"
ENDINGS: Final = (".csv.gz", ".csv")


@dataclass(frozen=True, kw_only=True)
class Published:
    """One data set as its publisher describes it.

    Parameters
    ----------
    title, page, licence, citation : str
        Name, web page, terms in a line, and what to cite.
    folder : str
        Name of its folder below TWOFOLD_DATA.
    files : tuple of str
        What has to be in the folder.
    """

    title: str
    page: str
    licence: str
    citation: str
    folder: str
    files: tuple[str, ...]


MOVIELENS: Final = Published(
    title="MovieLens 1M",
    page="https://grouplens.org/datasets/movielens/1m/",
    licence="GroupLens usage licence: research only, no commercial use, no redistribution without permission",
    citation="Harper and Konstan, ACM TiiS 5(4), 2015, doi:10.1145/2827872",
    folder="movielens-1m",
    files=("ml-1m.zip, or its ratings.dat, users.dat and movies.dat, or ratings.csv, users.csv and movies.csv",),
)
EICU: Final = Published(
    title="eICU Collaborative Research Database (open demo 2.0.1 or full release 2.0)",
    page="https://physionet.org/content/eicu-crd-demo/2.0.1/ (full: https://physionet.org/content/eicu-crd/2.0/)",
    licence="demo: Open Database License 1.0, share-alike; full: PhysioNet credentialed licence, no sharing",
    citation="Pollard et al., Scientific Data 5:180178, 2018",
    folder="eicu-demo-2.0.1",
    files=("patient.csv", "medication.csv", "lab.csv (in the demo also lab_hourly.csv)", "hospital.csv for regions"),
)


def find_folder(published: Published, folder: str | Path | None = None) -> Path:
    """The folder (or single file) of a data set; raises MissingDataset if it is missing.

    >>> find_folder(MOVIELENS, "no-such-folder")
    Traceback (most recent call last):
    twofold.errors.MissingDataset: MovieLens 1M is not there.
    ...
    """
    if folder is not None:
        path = Path(folder)
    else:
        root = os.environ.get(VARIABLE)
        if not root:
            raise _missing(published, f"no folder given, and {VARIABLE} is not set")
        path = Path(root) / published.folder
    if not path.exists():
        raise _missing(published, f"no {path}")
    return path


def find_table(folder: Path, name: str) -> Path | None:
    """The table `name` of a folder, plain or gzipped, or None."""
    return next((path for ending in ENDINGS if (path := folder / (name + ending)).is_file()), None)


def need_table(published: Published, folder: Path, name: str) -> Path:
    """The table `name` of a folder; raises MissingDataset if it is missing."""
    found = find_table(folder, name)
    if found is None:
        raise _missing(published, f"{folder} without {name}.csv or {name}.csv.gz")
    return found


def _missing(published: Published, found: str) -> MissingDataset:
    return MissingDataset(
        f"{published.title} is not there.",
        found=found,
        parameter=published.folder,
        expected=f"a folder with {', '.join(published.files)}",
        fix=(
            f"read the licence ({published.licence}) and fetch it from {published.page}, then put it in "
            f"${VARIABLE}/{published.folder}, or pass its folder to load(); twofold downloads nothing"
        ),
    )
