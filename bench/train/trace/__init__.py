"""Tracing of a local step and its replay."""
