"""What is compiled: recipes, source distributions, bitcode, and the manifest with its splits."""
