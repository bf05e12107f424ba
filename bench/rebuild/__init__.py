"""Tables, figures and the report site rebuilt from records, and records compared with published ones."""
