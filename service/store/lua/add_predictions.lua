-- Stores predictions, each unless its id is in use, provided that whoever made them had seen every round.
-- KEYS: model, log, then one key each.
-- ARGV: incarnation, rounds seen (-1: it does not matter), when the last of them came (empty: not known),
--       most rounds to return, milliseconds to keep, then one record each.
-- Returns nil if the model is gone; {rounds in all, entries from the last seen on} if others were seen than there are;
-- else {false, heads}: for each nil if it was stored, or the head of the record that was there.
-- Record formats: service/store/records.py.
local HEAD_BYTES = 46 -- before the answer, whose length stands at 3
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'last_at')
if there[1] ~= ARGV[1] then
  return false
end
local seen = tonumber(ARGV[2])
local same = tonumber(there[2]) == seen and (ARGV[3] == '' or ARGV[3] == there[3])
if seen >= 0 and not same then
  return {there[2], redis.call('XRANGE', KEYS[2], ARGV[2] .. '-0', '+', 'COUNT', ARGV[4] + 1)}
end
local heads, stored = {}, 0
for i = 3, #KEYS do
  local record = redis.call('SET', KEYS[i], ARGV[i + 3], 'PX', ARGV[5], 'NX', 'GET')
  heads[i - 2] = record and string.sub(record, 1, HEAD_BYTES + struct.unpack('<I4', record, 3))
  stored = stored + (record and 0 or 1)
end
redis.call('HINCRBY', KEYS[1], 'predictions', stored)
return {false, heads}
