"""ASSISTments 2009-2010: students' answers to mathematics problems; a school is an entity, a skill an item."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from studies.data.counted import counted
from twofold.data.catalog import Catalog, check_ids
from twofold.data.federation import Federation
from twofold.data.files import read_file
from twofold.data.sources.published import Published, find_folder, need_table
from twofold.errors import EmptyTable

__all__ = ["ASSISTMENTS", "load"]

ASSISTMENTS: Final = Published(
    title="ASSISTments 2009-2010, skill builder data",
    page="https://sites.google.com/site/assistmentsdata/home/2009-2010-assistment-data",
    licence="research use with citation; the publisher's terms hold for anything else; no redistribution",
    citation="Feng, Heffernan and Koedinger, User Modeling and User-Adapted Interaction 19, 2009",
    folder="assistments-2009",
    files=("answers.csv (columns student, school, skill, one row per answer)",),
)


def load(
    folder: str | Path | None = None, *, least_people: int = 10, least_items: int = 5, least_times: int = 1
) -> Federation:
    r"""Read how often each student answered problems of each skill.

    Paper
    -----
    Not used there. It is here because schools differ: pooled data makes worse recommendations than a school's own.

    Privacy
    -------
    The catalog is every skill in the publisher's table. It stands in for the list of the tutoring system, which is the
    same for every school. The limits look at students' data: a study's choice of whom to measure, not a release.

    Parameters
    ----------
    folder : str or Path, optional
        Folder with answers.csv or answers.csv.gz (columns student, school, skill, and others that are not read). By
        default ``$TWOFOLD_DATA/assistments-2009``.
    least_people, least_items, least_times : int
        Schools of at least so many students, who answered problems of at least so many skills, each at least so many
        times.

    Returns
    -------
    Federation
        Counts of answers, right or wrong; entities are school numbers, users student numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lines = ["student,school,skill", "1,73,Mean", "1,73,Mean", "2,73,Mode", "3,80,Mean"]
    ...     _ = Path(folder, "answers.csv").write_text("\n".join(lines))
    ...     federation = load(folder, least_people=2, least_items=1)
    >>> federation, federation[73].of(1)
    (Federation(1 entities of 2 to 2 users, 2 users, 2 of 2 items rated, 2 entries, counts), {'Mean': 2.0})
    """
    path = find_folder(ASSISTMENTS, folder)
    table = path if path.is_file() else need_table(ASSISTMENTS, path, "answers")
    answers = read_file(table, ["student", "school", "skill"], text=["skill"])
    if answers.height == 0:
        raise EmptyTable("the table of answers has no rows.", parameter="answers")
    for name in ("student", "school", "skill"):
        check_ids(answers[name], name)
    events = answers.select(user="student", entity="school", item=pl.col("skill").cast(pl.String))
    catalog = Catalog(events["item"].unique().sort())
    return counted(events, catalog, least_people=least_people, least_items=least_items, least_times=least_times)
