"""Audit of a paper: its claims checked against the numbers that it prints."""
