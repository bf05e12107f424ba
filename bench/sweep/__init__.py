"""From a study to its records: what is missing is packed into populations, trained, kept, and chosen from."""
