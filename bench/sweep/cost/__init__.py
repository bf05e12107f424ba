"""The cost of a study before it runs: time, memory and disk space."""
