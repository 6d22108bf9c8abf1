"""Where live session events come from, and what becomes of their spans."""
