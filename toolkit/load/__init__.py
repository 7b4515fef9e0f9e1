"""The load generator `wager load`, which uses the service by HTTP only."""
