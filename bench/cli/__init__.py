"""Commands of ``silobench``: each module parses arguments, calls the package and prints."""
