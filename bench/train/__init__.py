"""The engine: a run batch of runs (settings x seeds x clients) trained as one batched program."""
