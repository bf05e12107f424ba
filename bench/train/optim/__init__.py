"""Optimisers as functions of a flat weight vector."""
