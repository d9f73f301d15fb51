"""Commands of research tools."""
