"""Algorithms, one file each: the equations of a paper as hooks for one client of one run."""
