"""Networks, one small file per family, and :class:`~bench.models.functional.Model`, a network as a function of ``w``."""
