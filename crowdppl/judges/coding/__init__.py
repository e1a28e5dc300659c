"""From cells as they are written to codes: tables of verdicts, their columns, and the judges and items that they name."""
