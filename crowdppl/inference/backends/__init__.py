"""How a fit is computed: what the engines call, by torch, by compiled functions, or in several processes.

:mod:`crowdppl.inference.backends.choose` chooses once, at the start of a step of a fit, and engines never ask again. What each
way serves is stated beside it (``serves``); torch serves everything, and is what the others are tested against.
"""
