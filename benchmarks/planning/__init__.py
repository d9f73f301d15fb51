"""How long trainings would take on machines that are not at hand: a simulation fed with measured costs."""
