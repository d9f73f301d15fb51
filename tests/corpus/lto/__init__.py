"""Modules that are put together before they are compiled."""
