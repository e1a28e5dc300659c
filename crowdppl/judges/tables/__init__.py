"""Tables that follow from a result: judges, systems, the panel, and what each of them is worth."""
