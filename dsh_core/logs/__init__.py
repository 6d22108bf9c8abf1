"""Reading session logs: where they are, their bytes, lines and events, whatever their state."""
