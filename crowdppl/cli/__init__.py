"""The command ``crowdppl``.

``main``, ``application``, ``options``, ``wording``, ``encoding`` and ``commands`` are imported before it is known what is asked
for, which may be the help. They import what is slow (torch, pandas, the modules of the library that use them) in the functions
that need it, and for annotations under ``TYPE_CHECKING``. ``inputs``, ``display`` and the library import at the top of the file.
"""
