"""Problems that choose among the candidates of a unit, one by one, until the policy stops."""
