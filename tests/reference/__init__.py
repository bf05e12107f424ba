"""Plain sequential implementations of the algorithms, one file each, that the engine is checked against.

They are written with ``torch.optim`` and ordinary modules and import nothing from ``bench``, so that the engine and
the reference can only agree by both being right. Every file has one function
``run(sites, model, *, rounds, optimizer, hyper, loss) -> Trace``; see :mod:`.common` for its arguments.
"""
