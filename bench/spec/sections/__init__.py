"""The tables of a study file as classes: their keys, types, defaults and descriptions."""
