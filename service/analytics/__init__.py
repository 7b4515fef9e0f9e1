"""What the statistics mean: estimates, verdicts, evaluation."""
