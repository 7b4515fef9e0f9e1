"""Analysis of the statistics: estimates, verdicts, evaluation."""
