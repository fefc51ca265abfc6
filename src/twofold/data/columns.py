"""Columns that a table must have, and which names of columns an error may show.

The first line of a file without a header is a person's row, and a table turned on its side has people's names in its
header. An error therefore names only what the user typed and names made of a fixed list of plain words; of all other
columns it gives the number. Where two of the columns that the user typed are there, the table is long and its first
line holds names: then all are shown that look like names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from twofold.errors import Fix, MissingColumn, Set

__all__ = ["listing", "plain_name", "require_columns"]

_NAME_COLUMNS: Final = (Set("user", "COLUMN"), Set("item", "COLUMN"), Set("value", "COLUMN"))
#: Words that head columns everywhere and are nobody's value.
PLAIN: Final = frozenset(
    """
    user users userid user_id item items itemid item_id value values patient patients patientid patient_id person
    person_id subject subject_id customer customer_id client member account visit visit_id visits stay stay_id encounter
    encounter_id admission admission_id hadm_id patientunitstayid code codes count counts rating ratings score timestamp
    datetime date time year month day movie movieid movie_id title titles genre genres kind kinds class classes category
    categories group type types name names label labels description text tag tags feature features product product_id
    drug drugs medication diagnosis procedure lab test result quantity amount number weight price unit units id key
    index row hospital hospital_id hospitalid entity site ward department n x y z k
    """.split()  # noqa: SIM905 - a list of a hundred quoted words is harder to read
)
#: The same in other languages, without accents, and words that stand beside them.
_MORE: Final = frozenset(
    """
    patienten patientin fall faelle falle person personen kunde kunden nutzer nr nummer kennung artikel produkt
    produkte befund prufung pruefung untersuchung diagnose medikament wirkstoff laborwert wert werte anzahl haufigkeit
    haeufigkeit menge betrag bewertung datum jahr monat tag bezeichnung beschreibung klasse gruppe art einheit
    patiente numero num identifiant personne utilisateur client produit article examen analyse medicament valeur nombre
    quantite frequence note annee mois jour nom libelle groupe classe unite
    paciente pacientes identificador persona usuario cliente producto articulo prueba medicamento valor cantidad
    frecuencia recuento nota fecha ano mes dia nombre titulo descripcion grupo clase unidad
    paziente codice utente prodotto articolo esame farmaco valore conteggio frequenza quantita voto anno mese giorno
    nome titolo descrizione gruppo unita produto exame frequencia contagem quantidade data unidade
    no of per by in de der des von and total frequency loinc icd atc cpt snomed rxnorm concept
    """.split()  # noqa: SIM905
)
#: What a name of a column is made of, in any script; an address, a date or a measurement is not.
_LIKE_A_NAME: Final = re.compile(r"(?=.*[^\W\d_])[^\W\d_][\w\s.\-/()%#°]{0,39}")


def require_columns(present: Sequence[str], wanted: Sequence[str] | None, fix: Fix = _NAME_COLUMNS) -> None:
    """Refuse missing columns.

    Parameters
    ----------
    present : sequence of str
        The columns of the table. Only names that may be shown are.
    wanted : sequence of str or None
        The columns that the user named.
    fix : str, Set, Run or tuple of these
        What to do.

    Examples
    --------
    >>> require_columns(["Jane Doe", "hiv-test"], ["user"])
    Traceback (most recent call last):
    twofold.errors.MissingColumn: the table does not have this column.
      Found: 2 columns, a first line that looks like data, not like names (not shown)
      Expected: columns user
    ...
    """
    missing = [name for name in wanted or () if name not in present]
    if not missing:
        return
    expected = "columns " + ", ".join(missing)
    if len(present) == 1 and (other := next((mark for mark in ";\t|" if mark in present[0]), None)):
        fix = Set("separator", "tab" if other == "\t" else other)
    elif present and present[0].lstrip().startswith(("{", "[")):
        fix = "write the table as CSV or Parquet; this file looks like JSON"
    elif near := _nearest(missing[0], _shown(present, wanted or ())):
        expected += f"; did you mean {near!r}?"
    raise MissingColumn(
        "the table does not have this column.",
        found=listing(present, wanted or ()),
        expected=expected,
        fix=fix,
        parameter=missing[0],
    )


def listing(columns: Sequence[str], wanted: Sequence[str] = ()) -> str:
    """Describe columns without showing a name that may be a value.

    Examples
    --------
    >>> listing(["code", "Kind"]), listing(["code", "Jane Doe"])
    ('columns code, Kind', '2 columns, among them code (the others are not shown)')
    >>> listing(["Patienten-Nr.", "Prüfung", "Häufigkeit (Ø)"])
    'columns Patienten-Nr., Prüfung, Häufigkeit (Ø)'
    """
    known = _shown(columns, wanted)
    named = ", ".join(name.strip() for name in known[:20])
    more = f" and {len(known) - 20:,} more" if len(known) > 20 else ""
    if known and len(known) == len(columns):
        return f"columns {named}{more}"
    number = f"{len(columns):,} column" + ("" if len(columns) == 1 else "s")
    if known:
        return f"{number}, among them {named}{more} (the others are not shown)"
    return f"{number}, a first line that looks like data, not like names (not shown)"


def _shown(columns: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Columns whose names may be shown."""
    own = {_bare(name) for name in wanted} - {""}
    long = len(set(columns) & set(wanted)) >= 2  # a table turned on its side has at most the column of the items
    return [
        name
        for name in columns
        if plain_name(name) or _bare(name) in own or (long and _LIKE_A_NAME.fullmatch(name.strip()))
    ]


def _nearest(typed: str, names: Sequence[str]) -> str | None:
    bare = {_bare(name): name.strip() for name in names}
    near = get_close_matches(_bare(typed), bare, n=1, cutoff=0.75)
    return bare[near[0]] if near else None


def _bare(name: str) -> str:
    """A name in small letters, without accents and signs."""
    letters = unicodedata.normalize("NFKD", name.casefold())
    return "".join(one for one in letters if one.isalnum())


def plain_name(name: str) -> bool:
    """Whether the name of a column is made of plain words that cannot be anyone's value.

    Examples
    --------
    >>> plain_name("Patient"), plain_name("Item code (LOINC)"), plain_name("Jane Doe")
    (True, True, False)
    """
    if name.strip().casefold() in PLAIN:
        return True
    words = [_bare(word) for word in re.split(r"[\s.\-_/():#%]+", name)]
    words = [word for word in words if word not in ("", "ø")]
    return bool(words) and all(word in PLAIN or word in _MORE for word in words)
