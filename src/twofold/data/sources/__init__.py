"""Where the paper's data comes from: one module per data set, each with one function that makes a Federation.

::

    movielens    load      ratings 1 to 5     entity = first digit, or first three, of the ZIP code
    eicu         load      counts             entity = hospital or region; row = person or unit stay
    jester       load      ratings -10 to 10  entity = a random share of the users
    synthetic    generate  counts             the paper's Poisson data, with its ground truth
    hospitals    simulate  counts             a simulator of patients, hospitals and their formularies

Published data sets are looked for in a folder, by default below the one the environment variable TWOFOLD_DATA names.
Nothing is ever downloaded: each licence has to be read and accepted by whoever uses the data. Import the module you
need, ``from twofold.data.sources import movielens``; this package imports none of them by itself.
"""
