"""Searches for hyper-parameters: draws of settings, their runs, and the choice of one setting."""
