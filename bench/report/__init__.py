"""Tables and figures from records, beside the printed numbers. Nothing here imports torch."""
