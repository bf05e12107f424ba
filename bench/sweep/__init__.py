"""From a study to its records: what is missing is packed into run batches, trained, kept, and chosen from."""
