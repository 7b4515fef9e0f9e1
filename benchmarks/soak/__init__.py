"""An hour of load, and the trend of everything that must not grow."""
