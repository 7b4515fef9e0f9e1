"""API keys, their permissions, and the counts that limit their use."""
