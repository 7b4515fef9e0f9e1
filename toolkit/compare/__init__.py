"""The command `wager compare`: compares learners on a file of labelled examples."""
