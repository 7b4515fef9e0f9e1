"""The command `wager compare`: learners on a file of labelled examples."""
