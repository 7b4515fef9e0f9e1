"""How learners are tried on data that is labelled already."""
