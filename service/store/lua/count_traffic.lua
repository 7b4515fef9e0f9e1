#!lua flags=allow-oom
-- Counts predictions in the ranking of models by traffic, in which a prediction weighs half as much after each half-life.
-- The score of a model is ln Σ exp(t / τ) over the moments t of its predictions, so time changes no order, and no score
-- without predictions: forward decay (Cormode, Shkapenyuk, Srivastava and Xu, ICDE 2009).
-- KEYS: the ranking. ARGV: τ in seconds, most models to rank, then the name and the new predictions of each model.
local now = redis.call('TIME')[1] / ARGV[1]
for i = 3, #ARGV, 2 do
  local new, old = math.log(ARGV[i + 1]) + now, redis.call('ZMSCORE', KEYS[1], ARGV[i])[1]
  if old then -- ln(e^old + e^new) without overflow
    new = math.max(old, new) + math.log(1 + math.exp(-math.abs(old - new)))
  end
  redis.call('ZADD', KEYS[1], string.format('%.17g', new), ARGV[i])
end
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1 - ARGV[2])) do
  redis.call('ZREM', KEYS[1], name)
end
