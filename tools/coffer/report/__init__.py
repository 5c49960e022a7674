"""coffer report: one page about a trace."""
