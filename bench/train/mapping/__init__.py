"""Hooks of an algorithm applied to all settings, seeds and clients of a run batch."""
