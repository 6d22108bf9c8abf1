"""What the README says about speed, as commands."""
