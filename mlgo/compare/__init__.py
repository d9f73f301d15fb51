"""Trainings and evaluations side by side: which there are, and the one comparison of all of them."""
