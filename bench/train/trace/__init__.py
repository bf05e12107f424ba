"""Recording of a local step and its replay."""
