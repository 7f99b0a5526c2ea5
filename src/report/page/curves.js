// Curves of a run.
