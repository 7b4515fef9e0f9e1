"""The commands `wager serve` and `wager keys`."""
