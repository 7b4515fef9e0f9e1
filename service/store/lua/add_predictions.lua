-- Stores predictions, each unless its id is in use, provided that whoever made them had seen every round.
-- KEYS: model, log, then one key each.
-- ARGV: incarnation, rounds seen (-1: it does not matter), most rounds to return, milliseconds to keep,
--       then one record each.
-- Returns nil if the model is gone; {rounds in all, entries} if there are rounds that were not seen;
-- else {false, heads}: for each nil if it was stored, or the head of the record that was there.
-- Record formats: service/store/records.py.
local HEAD_BYTES = 46 -- before the answer, whose length stands at 3
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds')
if there[1] ~= ARGV[1] then
  return false
end
local seen = tonumber(ARGV[2])
if seen >= 0 and tonumber(there[2]) > seen then
  return {there[2], redis.call('XRANGE', KEYS[2], '(' .. ARGV[2] .. '-0', '+', 'COUNT', ARGV[3])}
end
local heads, stored = {}, 0
for i = 3, #KEYS do
  local record = redis.call('SET', KEYS[i], ARGV[i + 2], 'PX', ARGV[4], 'NX', 'GET')
  heads[i - 2] = record and string.sub(record, 1, HEAD_BYTES + struct.unpack('<I4', record, 3))
  stored = stored + (record and 0 or 1)
end
redis.call('HINCRBY', KEYS[1], 'predictions', stored)
return {false, heads}
