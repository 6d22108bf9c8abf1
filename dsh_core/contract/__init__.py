"""The contract of a dsh session log: its rules, and a streaming checker for them."""
