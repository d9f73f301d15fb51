"""What everything rests on: errors, files, randomness, settings and the formats of all tables."""
