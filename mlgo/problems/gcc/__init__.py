"""GCC under a policy: its debug counters choose which single eliminations a pass performs in a translation unit."""
