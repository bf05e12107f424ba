"""From the text of a study file, its base file and a profile to one plain table of keys."""
