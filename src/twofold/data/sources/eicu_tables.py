"""The eICU tables we use, with our column names and plain names of labs and drugs.

A name is made plain by rules that look at nothing but the text a ward typed. A drug keeps its ingredients and loses
container, strength, diluent, form, route and salt::

    2 ML VIAL : ONDANSETRON HCL 4 MG/2ML IJ SOLN  ->  ondansetron
    VANCOmycin 1 GM in NS 250 mL IVPB             ->  vancomycin
    POTASSIUM CHLORIDE CRYS ER 20 MEQ PO TBCR     ->  potassium chloride

Why these rules: docs/decisions/0004-eicu-names.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

import polars as pl

from twofold.data.files import read_file
from twofold.data.sources.published import EICU, find_table, need_table
from twofold.errors import DataError, UnreadableSource

__all__ = [
    "CONCEPTS",
    "LabTable",
    "choose_labs",
    "drug_name",
    "lab_name",
    "read_drugs",
    "read_labs",
    "read_regions",
    "read_stays",
]

LabTable = Literal["lab", "lab_hourly", "lab_100_patients"]
LAB_TABLES: Final = ("lab", "lab_hourly", "lab_100_patients")
STAY: Final = "patientunitstayid"
# One code of the public demo under which unrelated drugs are filed (insulin, lorazepam, famotidine, amiodarone, ...).
CATCH_ALL: Final = 18084


def choose_labs(folder: Path, labs: LabTable | None) -> tuple[LabTable, bool]:
    """Choose the table of labs, and say whether it is an unrequested substitute."""
    if labs is not None:
        if labs not in LAB_TABLES:
            raise DataError("{parameter} is unknown.", expected=" or ".join(map(repr, LAB_TABLES)), parameter="labs")
        need_table(EICU, folder, labs)
        return labs, False
    if find_table(folder, "lab") is None and find_table(folder, "lab_hourly") is not None:
        return "lab_hourly", True
    need_table(EICU, folder, "lab")
    return "lab", False


def read_stays(folder: Path) -> pl.DataFrame:
    """One row per unit stay: stay, person, hospital."""
    frame = _read(folder, "patient", [STAY, "uniquepid", "hospitalid"], text=["uniquepid"])
    stays = frame.select(stay=STAY, person=pl.col("uniquepid").cast(pl.String), hospital="hospitalid")
    if any(stays.null_count().row(0)) or stays["stay"].is_duplicated().any():
        raise UnreadableSource(
            "the patient table is damaged.",
            found="stays that repeat, or have no person or hospital",
            expected="one line per unit stay, as published",
            fix="fetch or export the table again",
            parameter="patient",
        )
    return stays


def read_regions(folder: Path, like: pl.Series) -> pl.DataFrame:
    """Hospital, of the type of the hospitals in `like`, and region; "unknown" where the publisher gives none."""
    frame = _read(folder, "hospital", ["hospitalid", "region"], text=["region"])
    region = pl.col("region").cast(pl.String).str.strip_chars().replace("", None).fill_null("unknown")
    hospital = pl.col("hospitalid").cast(like.dtype, strict=False)
    return frame.select(hospital=hospital, region=region).unique("hospital", maintain_order=True)


def read_labs(folder: Path, table: LabTable) -> pl.DataFrame:
    """Results by stay and lab: stay, name, n (how many)."""
    column = "lab" if table == "lab_hourly" else "labname"
    # Counted before anything else: the full release has 39 million results.
    counts = _read(folder, table, [STAY, column]).group_by(STAY, column).len("n")
    names = _each(counts[column], _concept if table == "lab_hourly" else lab_name)
    return counts.select(stay=STAY, name=names, n="n").filter(pl.col("name") != "")


def read_drugs(folder: Path) -> pl.DataFrame:
    """Orders that were not cancelled: stay, name ("" where there is none), code (null where none), n (how many)."""
    columns = [STAY, "drugordercancelled", "drugname", "drughiclseqno"]
    frame = _read(folder, "medication", columns, text=["drugname", "drugordercancelled"], numbers=["drughiclseqno"])
    kept = frame.filter(pl.col("drugordercancelled").cast(pl.String).str.to_lowercase().ne_missing("yes"))
    counts = kept.group_by(STAY, "drugname", "drughiclseqno").len("n")
    if frame.height and frame["drughiclseqno"].dtype == pl.String and frame["drughiclseqno"].count():
        raise UnreadableSource(
            "the medication table is not the published one.", found="text in drughiclseqno", parameter="medication"
        )
    code = pl.col("drughiclseqno").cast(pl.Int64, strict=False)
    usable = (code > 0) & (code != CATCH_ALL)
    return counts.select(stay=STAY, name=_each(counts["drugname"], drug_name), code=pl.when(usable).then(code), n="n")


def _read(
    folder: Path, table: str, columns: list[str], *, text: Sequence[str] = (), numbers: Sequence[str] = ()
) -> pl.DataFrame:
    path = need_table(EICU, folder, table)
    frame = read_file(path, columns, text=text, numbers=numbers)
    if STAY not in columns:
        return frame
    if frame.height and not frame[STAY].dtype.is_integer():
        raise UnreadableSource(
            f"{path.name} is not the published table.", found="ids that are not whole numbers", expected=f"{STAY}"
        )
    return frame.with_columns(pl.col(STAY).cast(pl.Int64))


def _concept(text: str) -> str:
    return lab_name(CONCEPTS.get(text) or text)


def _each(column: pl.Series, plain: Callable[[str], str]) -> pl.Series:
    """Normalise every different text once."""
    texts = column.cast(pl.String).fill_null("")
    different = texts.unique()
    plains = pl.Series([plain(text) for text in different.to_list()], dtype=pl.String)
    return texts.replace_strict(different, plains, return_dtype=pl.String)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Stand-in concept -> the publisher's lab name. "glu" also holds bedside glucose.
CONCEPTS: Final = {
    "alb": "albumin", "alp": "alkaline phos.", "alt": "ALT (SGPT)", "ast": "AST (SGOT)", "be": "Base Excess",
    "bicar": "bicarbonate", "bili": "total bilirubin", "bili_dir": "direct bilirubin", "bnd": "-bands", "bun": "BUN",
    "ca": "calcium", "cai": "ionized calcium", "ck": "CPK", "ckmb": "CPK-MB", "cl": "chloride", "crea": "creatinine",
    "crp": "CRP", "fgn": "fibrinogen", "glu": "glucose", "hgb": "Hgb", "inr_pt": "PT - INR", "k": "potassium",
    "lact": "lactate", "lymph": "-lymphs", "mch": "MCH", "mchc": "MCHC", "mcv": "MCV", "methb": "Methemoglobin",
    "mg": "magnesium", "na": "sodium", "neut": "-polys", "pco2": "paCO2", "ph": "pH", "phos": "phosphate",
    "plt": "platelets x 1000", "po2": "paO2", "ptt": "PTT", "tnt": "troponin - T", "wbc": "WBC x 1000",
}  # fmt: skip
ASIDE: Final = re.compile(r"\([^)]*\)?|\*[^*]*\*+|[<>*\"]+")
CONTAINER: Final = re.compile(
    r"^[\d.,]*\s*[a-z]+\b[^:]*?(?:\s-\s|:)\s*"
)  # only tried on names that begin with a number
STRENGTH: Final = re.compile(r"^[\d.,/]+\s*%?\s*(?:(?:ml|mg|mcg|gm?|gram|meq|units?)\b)?\s*")
# A strength between two ingredients: "dextrose 5%-nacl 0.45%" is "dextrose-nacl", not "dextrose".
BETWEEN: Final = re.compile(r"\s[\d.]+\s*(?:%|mg|mcg|gm?|meq)?\s*(?:-(?=[a-z]{3})|/(?=nacl|kcl))")
QUANTITY: Final = re.compile(r"(?:^|[\s,-])\.?\d.*$")  # from the first number on: strength, volume, form
REMARK: Final = re.compile(r"\s-\s.*$|\s(?:in|w|with)(?:\s.*)?$|\s*/\s*(?:dextrose|d5w|nacl|ns)\b.*$")
SYNONYMS: Final = {
    "nacl": "sodium chloride",
    "ns": "sodium chloride",
    "nss": "sodium chloride",
    "normal saline": "sodium chloride",
    "saline": "sodium chloride",
    "kcl": "potassium chloride",
    "dext": "dextrose",
    "dext-nacl": "dextrose-nacl",
    "dext-nacl-kcl": "potassium chloride",
    "lactated ringer's": "lactated ringers",
    "ringers solution,lactated": "lactated ringers",
    "apap": "acetaminophen",
    "mvi": "multivitamin",
    "multivitamins": "multivitamin",
}
SHORT: Final = {"d5w": "dextrose", "d10w": "dextrose", "d50": "dextrose", "d50w": "dextrose"}
FORMS: Final = _words(
    """adv adult bag bolus bq cap caps capsule chew chewable consult cr crys dr drip each ec er ex flexpen flush human
    in inf infusion inh inhale inhaled inhalation inhaler inj injection intravenous iv ivpb ir ij la liq liquid lock lok
    lvp mbp mini neb nebu nebulizer nf odt oint ointment oral pb pf pgbk piggy po porcine powder premix pwpk range
    re rect rectal rinse sa sc sdv sl sol soln solp solr solution sr sso subl subq supp suppository susp suspension syr
    syrg syringe syrup tab tablet tablets tabs tbcr tbdp tbec td tr ud udpwd unit units variable vial xl xr"""
)
SALTS: Final = _words(
    """acetate besylate bisulfate bitartrate bromide ca calcium carbonate chloride citrate dibasic dihydrate
    edisylate fumarate gluconate hbr hcl hydrochloride hydrobromide lactate maleate mesylate mono monohydrate nitrate
    phos phosphate potassium so sod sodium suc succ succinate sulf sulfate tartrate tromethamine"""
)
# Here the "salt" is the drug: sodium chloride and sodium bicarbonate are not both sodium.
MINERALS: Final = _words("aluminum ammonium calcium ferrous ferric iron lithium magnesium potassium sodium silver zinc")


@lru_cache(maxsize=1 << 16)
def drug_name(text: str) -> str:
    """The plain name of a drug; empty if the text names none.

    >>> [drug_name(text) for text in ("1000 ML FLEX CONT : SODIUM CHLORIDE 0.9 % IV SOLN", "METOPROLOL TARTRATE")]
    ['sodium chloride', 'metoprolol']
    """
    name = " ".join(ASIDE.sub(" ", text.lower()).replace("|", " ").split())
    if name in SHORT:
        return SHORT[name]
    if name[:1].isdigit() or name[:1] == ".":
        name = STRENGTH.sub("", CONTAINER.sub("", name, count=1), count=1)
    name = REMARK.sub("", QUANTITY.sub("", BETWEEN.sub("-", name)))
    words = _without_endings(name.replace(":", " ").split())
    plain = " ".join(words).strip(" .,;-/&'")
    return SYNONYMS.get(plain, plain)


def lab_name(text: str) -> str:
    """The plain name of a lab: the publisher's own name, lower case, single spaces.

    >>> lab_name("WBC x 1000 "), lab_name("troponin - T")
    ('wbc x 1000', 'troponin - t')
    """
    return " ".join(text.lower().replace("|", " ").split())


def _without_endings(words: list[str]) -> list[str]:
    """Drop forms, routes and salts from the end; the first word always stays, and so does a mineral's partner."""
    least = 2 if words and words[0] in MINERALS else 1
    while len(words) > 1:
        last = words[-1].strip(".,;-")
        salt = last in SALTS and len(words) > least
        if not (salt or last in FORMS or not last):
            break
        words = words[:-1]
    return words
