"""One regression over the features of context and action, for rounds that bring their own candidates."""
