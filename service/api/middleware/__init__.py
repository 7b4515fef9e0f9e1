"""What every request passes: limits, keys, headers, the request log."""
