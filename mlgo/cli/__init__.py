"""Programs for people and for the workflow."""
