"""One small file per algorithm: a page of its paper, written for one client of one run."""
