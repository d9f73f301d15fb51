"""Builds of others: which compiles, archives and links they consist of, and the bitcode of what they compile."""
