"""Research tools on the product, which never imports them: sweeps, studies, scoreboards, explanations."""
