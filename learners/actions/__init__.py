"""Action learners: each round has its own candidates, each with its own features."""
