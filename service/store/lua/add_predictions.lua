-- Stores blocks of predictions, each unless its id is in use, provided that whoever made them had seen every round.
-- KEYS: model, log, then one block each.
-- ARGV: incarnation, rounds seen (-1: it does not matter), when the last of them came (empty: not known),
--       most rounds to return, milliseconds to keep, then one record each.
-- Returns nil if the model is gone; {rounds in all, entries from the last seen on} if others were seen than there are;
-- else {false, heads}: for each nil if it was stored, or the record that was there, without bodies.
-- Formats: service/store/records.py.
local HEAD, HEAD_BYTES = '<BI4I4I4', 45
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'last_at')
if there[1] ~= ARGV[1] then
  return false
end
local seen = tonumber(ARGV[2])
local same = tonumber(there[2]) == seen and (ARGV[3] == '' or ARGV[3] == there[3])
if seen >= 0 and not same then
  local from, upto = ARGV[2] .. '-0', string.format('%.0f-0', seen + tonumber(ARGV[4]))
  local entries = redis.call('XRANGE', KEYS[2], from, upto)
  local last = entries[#entries] and entries[#entries][1]
  if last ~= upto then -- the next one goes beyond the limit
    entries[#entries + 1] = redis.call('XRANGE', KEYS[2], last and '(' .. last or from, '+', 'COUNT', 1)[1]
  end
  return {there[2], entries}
end
local heads, stored = {}, 0
for i = 3, #KEYS do
  local _, n = struct.unpack(HEAD, ARGV[i + 3])
  local record = redis.call('SET', KEYS[i], ARGV[i + 3], 'PX', ARGV[5], 'NX', 'GET')
  if record then
    local _, others, _, answer_bytes = struct.unpack(HEAD, record)
    heads[i - 2] = string.sub(record, 1, HEAD_BYTES + others * (33 + 2 * answer_bytes))
  else
    heads[i - 2], stored = false, stored + n
  end
end
redis.call('HINCRBY', KEYS[1], 'predictions', stored)
return {false, heads}
