"""Figures as vector PDF and PNG files."""
