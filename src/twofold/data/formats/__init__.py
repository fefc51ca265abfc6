"""Formats that people already have: MEDS, OMOP and RecBole, each read into the same Ratings.

Paper
-----
Not in the paper, which begins with a matrix.
"""

from twofold.data.formats.meds import read_meds
from twofold.data.formats.omop import read_omop
from twofold.data.formats.recbole import read_recbole

__all__ = ["read_meds", "read_omop", "read_recbole"]
