"""MaskablePPO of SB3-Contrib, on choices."""
