"""Labels of people beside verdicts: items and classes that both name, and the errors of people."""
