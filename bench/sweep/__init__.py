"""Sweeps: the missing runs of a study are planned, trained and recorded, and one setting per method is chosen."""
