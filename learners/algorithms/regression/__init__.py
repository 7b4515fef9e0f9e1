"""Contextual bandits over regressions that predict each label's probability of being right, or an action's reward."""
