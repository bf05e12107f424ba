"""The engine: the runs of a run batch (settings x seeds x clients), trained as one batched program."""
