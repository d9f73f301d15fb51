"""The decisions that are learnt: one folder for each compiler that is asked, and what they share."""
