"""Registered algorithms, models and data sets: their names, what they declare, and loading them.

Names and summaries come from the source files without importing them; hyper-parameters, options, defaults, allowed
values and flags from the imported classes and functions, kept in the cache folder.
"""

from __future__ import annotations

from bench.registry.allowed import Allowed
from bench.registry.declarations import Option, check_options, declaration, defaults, flags, hyperparameters, options
from bench.registry.names import FLAMBY, SINGULAR, Entry, Kind, catalogue, find, folder, load, register

__all__ = [
    "FLAMBY",
    "SINGULAR",
    "Allowed",
    "Entry",
    "Kind",
    "Option",
    "catalogue",
    "check_options",
    "declaration",
    "defaults",
    "find",
    "flags",
    "folder",
    "hyperparameters",
    "load",
    "options",
    "register",
]
