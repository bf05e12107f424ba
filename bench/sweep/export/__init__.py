"""Records in the forms of other tools. Nothing is read back from these: the records stay the truth."""
