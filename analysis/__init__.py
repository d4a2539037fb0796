"""Analyses: any evidence becomes a `Trace`; a `Trace` becomes documented tables. Nothing here knows how a trace was made."""
