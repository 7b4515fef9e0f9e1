"""Arrival times, alarms and latencies."""
