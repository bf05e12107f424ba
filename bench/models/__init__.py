"""Networks, one file per family; :mod:`bench.models.functional` makes them functions of a weight vector."""
