"""Hostile input: what comes from others is data. Nothing of it runs, writes outside, hangs or crashes."""
