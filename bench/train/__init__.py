"""The engine: a population of runs (settings x seeds x clients) trained as one batched program."""
