"""Learners for choices of eliminations: what episodes teach those of cloning and of policy gradients."""
