"""Limits of study files and of users' own data; more is refused with one line that states the limit.

``docs/study-file.md`` and ``docs/data.md`` state them. The readers of file formats have further limits of their own.
"""

from __future__ import annotations

# Study files, and other TOML files of experiments/
MAX_STUDY_BYTES = 10_000_000  # a larger file is a likely mistake
MAX_DEPTH = 32  # of tables and lists inside each other
MAX_TEXT = 10_000  # characters of a text
MAX_NAME = 100  # characters of a name: of a method, table, figure, profile, label ...
MAX_WHOLE = 2**63 - 1  # the largest whole number of TOML
MAX_COUNT = 1_000_000  # rounds, local steps, local epochs, and other whole numbers of a budget or a model
MAX_METHODS = 10_000  # of a study, times its data sets
MAX_SEEDS = 10_000
MAX_TRIALS = 10_000  # settings that one search draws
MAX_SETTINGS = 1_000_000  # of one grid
MAX_STUDY_RUNS = 1_000_000  # at a hundred runs a second a larger study would take three hours
MAX_CHECKED = 500  # different models, algorithms and budgets that are built to check them before training
MAX_ROWS = 100_000  # of all tables and figures of a study

# Users' own data
MAX_COLUMNS = 50_000  # of a csv or parquet file
MAX_LEVELS = 100  # different words in a categorical column; more are names or free text
MAX_CLASSES = 1000
MAX_TABLE_BYTES = 4 * 2**30  # of a csv or parquet file
MAX_PICTURE_PIXELS = 2**26  # of one picture in its file
MAX_PICTURES_BYTES = 2**33  # of all resized pictures

# Messages
MAX_MESSAGE = 1000  # characters of an error message
