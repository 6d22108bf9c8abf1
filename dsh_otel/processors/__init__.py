"""Session span processors: they judge, the tracer only places."""
