"""OMOP: a database in, counts of ingredients, classes of ATC as public features, recommendations with names out."""

from __future__ import annotations

import random

import duckdb

import twofold as tw

# Yours: "cdm.duckdb", or postgresql://me@cdm/omop. This one is made up, with the few tables that are needed.
cdm = duckdb.connect()
DRUGS = {1: "aspirin", 2: "ibuprofen", 3: "naproxen", 4: "metformin", 5: "glipizide", 6: "insulin glargine"}
CLASSES = {11: ("N02", "ANALGESICS"), 12: ("A10", "DRUGS USED IN DIABETES")}
cdm.sql("""
    CREATE TABLE concept (concept_id INTEGER, concept_name TEXT, domain_id TEXT, vocabulary_id TEXT,
        concept_class_id TEXT, standard_concept TEXT, concept_code TEXT, invalid_reason TEXT);
    CREATE TABLE concept_ancestor (ancestor_concept_id INTEGER, descendant_concept_id INTEGER);
    CREATE TABLE drug_exposure (person_id INTEGER, drug_concept_id INTEGER, drug_exposure_start_date DATE,
        visit_occurrence_id INTEGER)
""")
kinds = [(id, name, "Drug", "RxNorm", "Ingredient", "S", str(id), None) for id, name in DRUGS.items()]
kinds += [(id, name, "Drug", "ATC", "ATC 2nd", "C", code, None) for id, (code, name) in CLASSES.items()]
cdm.executemany("INSERT INTO concept VALUES (?, ?, ?, ?, ?, ?, ?, ?)", kinds)
above = [(id, id) for id in DRUGS] + [(11 if id <= 3 else 12, id) for id in DRUGS]
cdm.executemany("INSERT INTO concept_ancestor VALUES (?, ?)", above)
rng = random.Random(0)
groups = [rng.choice(([1, 2, 3], [4, 5, 6])) for _ in range(150)]
rows = [(person, drug, "2025-03-01", None) for person, group in enumerate(groups) for drug in rng.choices(group, k=4)]
cdm.executemany("INSERT INTO drug_exposure VALUES (?, ?, ?, ?)", rows)

catalog = tw.omop_catalog(cdm, tables=["drug_exposure"], public=True)  # the whole vocabulary, not what people had
features = tw.omop_features(cdm, catalog, ["ATC 2nd"])
plan = tw.Plan(catalog=catalog, features=features, feedback="counts", bound=5, max_items=4, n_users=100)
print(f"{plan.n_items} ingredients in {', '.join(features.names)}")

print(*tw.omop_sql(cdm, tables=["drug_exposure"], since="2025-01-01"), sep="\n")
ratings = tw.read_omop(cdm, catalog, tables=["drug_exposure"], since="2025-01-01")
names = dict(zip(catalog.items, catalog.features["title"], strict=True))
for item, score in tw.fit_alone(ratings).recommend({1: 2}, n=2):
    print(f"after aspirin: {names[item]} {score:.3f}")
