"""Complete rounds that come from elsewhere: a log of another system, or labelled data."""
