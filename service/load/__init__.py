"""`wager load`: load on a running installation, latencies without coordinated omission, and an audit of its logs.

Start with `plan` (the options of a load), `generator` (the work of one process), `audit` and `report`. Benchmarks
put one endpoint under load from their own process, with the same client::

    async with Client(Target.parse("http://127.0.0.1:8000"), connections=32) as client:
        requests = Requests("POST", "/predict", bodies)  # bytes; keep=responses.append collects the responses
        measured, lag = await open_loop(client, requests, Pace(rate=2000, seconds=10))
        measured.latency.percentile(99.9)  # seconds, from when each request was due
        measured.offered, measured.achieved, measured.not_sent  # per second, per second, requests
        lag.percentile(99)  # seconds by which the driver itself was late

        measured = await closed_loop(client, requests.encoded(client.target), connections=32)

Run it with `uvloop.run`, which needs less processor time than asyncio's own loop. More than a few thousand requests per
second need several processes: `to_json` and `from_json` transfer their measurements, `Measured.merge` adds them up.
"""
