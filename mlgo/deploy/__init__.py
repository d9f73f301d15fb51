"""Policies in the builds of others: compilers that ask one, and links of whole programs under one."""
