"""Tables and figures from records, with the printed numbers. Nothing here imports torch."""
