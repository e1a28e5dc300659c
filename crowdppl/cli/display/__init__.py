"""What the command prints: tables and sentences on the terminal, a module for each kind of table."""
