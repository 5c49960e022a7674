"""coffer run: a program under Coffer."""
