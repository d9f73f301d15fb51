"""Policies for others: what a release holds, its model card, archives and the package ``mlgo-policies``."""
