"""Data sets, one module each, with a function that makes a Federation.

::

    movielens    load      ratings 1 to 5     entity = first digit, or first three, of the ZIP code
    eicu         load      counts             entity = hospital or region; row = person or unit stay
    hospitals    simulate  counts             a simulator of patients, hospitals and their formularies

Published data sets are looked for in a folder, by default below the one the environment variable TWOFOLD_DATA names.
Nothing is ever downloaded: read and accept each licence first. Import the module you need,
``from twofold.data.sources import movielens``; this package imports none of them by itself.
"""
