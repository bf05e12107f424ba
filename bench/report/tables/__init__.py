"""Tables: rows, cells, comparison with the printed numbers, and rendering."""
