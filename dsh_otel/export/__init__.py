"""Where replayed spans go: an OTLP endpoint, a file, the console."""
