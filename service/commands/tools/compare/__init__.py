"""The command `wager compare`: which learner to use for labelled data, with which settings, and why."""
