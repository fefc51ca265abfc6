"""DuckDB: read what a query gives, and write recommendations back into a table."""

from __future__ import annotations

import duckdb
from made_up import ITEMS, visits

import twofold as tw

database = duckdb.connect()  # yours: duckdb.connect("hospital.duckdb")
database.sql("CREATE TABLE visits (hospital TEXT, patient TEXT, code TEXT, count INTEGER)")
database.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", visits("st-anna", 120))

query = database.sql("SELECT patient, code, sum(count) AS count FROM visits GROUP BY patient, code")
ratings = tw.read_ratings(query, tw.Catalog(ITEMS), user="patient", item="code", value="count", feedback="counts")
lists = tw.fit_alone(ratings).recommend_all(n=3).to_arrow()

database.sql("CREATE TABLE recommended AS SELECT user AS patient, rank, item, score FROM lists")
database.sql(
    "SELECT item, count(*) AS people FROM recommended WHERE rank = 1 GROUP BY item ORDER BY people DESC LIMIT 3"
).show()
