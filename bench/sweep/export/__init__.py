"""Exports of records to other tools. Exports are never read back; the records remain the only source."""
