"""Raw files: download, checksums, archives, caches and data set cards."""
