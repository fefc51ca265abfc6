"""A small OMOP database: four people, two care sites, and a vocabulary with ATC, RxNorm, CVX, LOINC and SNOMED."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

ASPIRIN, METFORMIN, TABLET, COMBINED, VACCINE = 1112807, 1503297, 19059056, 42800451, 40213154
ANALGESICS, SALICYLATES, DIABETES = 21604253, 21604254, 21600744
CREATININE, GLUCOSE, CHEMISTRY = 3016723, 3004501, 45876033
FRACTURE, INJURY, BIOPSY = 4237458, 444187, 4321878
#: Values of people, which no error may show.
SECRET = ("Jane Doe", "HIV positive")

CONCEPTS = [
    (ASPIRIN, "aspirin", "Drug", "RxNorm", "Ingredient", "S", "1191"),
    (METFORMIN, "metformin", "Drug", "RxNorm", "Ingredient", "S", "6809"),
    (TABLET, "aspirin 81 MG Oral Tablet", "Drug", "RxNorm", "Clinical Drug", "S", "243670"),
    (COMBINED, "aspirin / metformin Oral Tablet", "Drug", "RxNorm", "Clinical Drug", "S", "9"),
    (VACCINE, "influenza, seasonal", "Drug", "CVX", "CVX", "S", "140"),
    (ANALGESICS, "ANALGESICS", "Drug", "ATC", "ATC 2nd", "C", "N02"),
    (SALICYLATES, "Salicylic acid | derivatives", "Drug", "ATC", "ATC 4th", "C", "N02BA"),
    (DIABETES, "DRUGS USED IN DIABETES", "Drug", "ATC", "ATC 2nd", "C", "A10"),
    (CREATININE, "Creatinine in Serum", "Measurement", "LOINC", "Lab Test", "S", "2160-0"),
    (GLUCOSE, "Glucose in Serum", "Measurement", "LOINC", "Lab Test", "S", "2345-7"),
    (CHEMISTRY, "Chemistry", "Measurement", "LOINC", "LOINC Class", "C", "CHEM"),
    (FRACTURE, "Fracture of bone", "Condition", "SNOMED", "Disorder", "S", "125605004"),
    (INJURY, "Traumatic injury", "Condition", "SNOMED", "Disorder", "S", "417163006"),
    (BIOPSY, "Biopsy", "Procedure", "SNOMED", "Procedure", "S", "86273004"),
    (77, "an old drug", "Drug", "RxNorm", "Ingredient", None, "0"),
    (0, "No matching concept", "Metadata", "None", "Undefined", None, "-"),
]
ANCESTORS = [
    (ASPIRIN, TABLET),
    (ASPIRIN, COMBINED),
    (METFORMIN, COMBINED),
    (ANALGESICS, ASPIRIN),
    (ANALGESICS, TABLET),
    (SALICYLATES, ASPIRIN),
    (DIABETES, METFORMIN),
    (CHEMISTRY, CREATININE),
    (CHEMISTRY, GLUCOSE),
    (INJURY, FRACTURE),
]
#: person, concept, day, visit
DRUGS = [
    (1, TABLET, "2025-01-01", 11),
    (1, COMBINED, "2025-06-01", 11),
    (1, ASPIRIN, "2026-01-01", 12),
    (2, METFORMIN, "2025-06-01", None),
    (3, VACCINE, "2025-06-01", 13),
    (3, 0, "2025-06-01", 13),
]
LABS = [(1, CREATININE, "2025-01-01", 11), (1, CREATININE, "2025-01-02", 11), (2, GLUCOSE, "2025-01-01", None)]
COLUMNS = {
    "drug_exposure": ("drug_concept_id", "drug_exposure_start_date"),
    "measurement": ("measurement_concept_id", "measurement_date"),
    "procedure_occurrence": ("procedure_concept_id", "procedure_date"),
    "condition_occurrence": ("condition_concept_id", "condition_start_date"),
}
ROWS = {
    "drug_exposure": DRUGS,
    "measurement": LABS,
    "procedure_occurrence": [(2, BIOPSY, "2025-03-01", None)],
    "condition_occurrence": [(3, FRACTURE, "2025-03-01", 13)],
}


def fill(connection: Any, *, vocabulary: bool = True) -> None:
    """Make and fill the tables; works with sqlite3 and DuckDB."""
    run, many = connection.execute, connection.executemany
    run("CREATE TABLE person (person_id BIGINT, person_source_value TEXT, note TEXT)")
    many("INSERT INTO person VALUES (?, ?, ?)", [(one, *SECRET) for one in (1, 2, 3, 4)])
    run("CREATE TABLE visit_occurrence (visit_occurrence_id BIGINT, person_id BIGINT, care_site_id BIGINT)")
    many("INSERT INTO visit_occurrence VALUES (?, ?, ?)", [(11, 1, 5), (12, 1, 6), (13, 3, 5), (14, 4, 5)])
    for table, (concept, day) in COLUMNS.items():
        run(f"CREATE TABLE {table} (person_id BIGINT, {concept} BIGINT, {day} DATE, visit_occurrence_id BIGINT)")
        many(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", ROWS[table])
    if vocabulary:
        run(
            "CREATE TABLE concept (concept_id BIGINT, concept_name TEXT, domain_id TEXT, vocabulary_id TEXT, "
            "concept_class_id TEXT, standard_concept TEXT, concept_code TEXT, invalid_reason TEXT)"
        )
        many("INSERT INTO concept VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", CONCEPTS)
        run("CREATE TABLE concept_ancestor (ancestor_concept_id BIGINT, descendant_concept_id BIGINT)")
        itself = [(one[0], one[0]) for one in CONCEPTS if one[5]]
        many("INSERT INTO concept_ancestor VALUES (?, ?)", ANCESTORS + itself)


def sqlite_file(path: Path, *, vocabulary: bool = True) -> Path:
    connection = sqlite3.connect(path)
    fill(connection, vocabulary=vocabulary)
    connection.commit()
    connection.close()
    return path
