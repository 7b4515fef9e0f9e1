-- Returns the bytes of a model's open predictions.
-- KEYS: model.
return redis.call('EXISTS', KEYS[1]) == 1 and sweep_open(KEYS[1]) or 0
