"""Object files: ELF and its tables, symbols, archives, and the measures that are read from a compile."""
