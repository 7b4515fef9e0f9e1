-- Reads the entries after a given round.
-- KEYS: model, log. ARGV: incarnation, the round, limit.
-- Returns nil if the model is gone, else {total rounds, entries, version of the damage record, total changes, digest}. The
-- entries contain `limit` rounds, or more with the last entry, and the changes among them.
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'damage', 'changes', 'digest')
if there[1] ~= ARGV[1] then
  return false
end
local after, entries = tonumber(ARGV[2]), {}
local nearest = redis.call('XRANGE', KEYS[2], ARGV[2] .. '-0', '+', 'COUNT', 2)
if nearest[1] and rounds_of(nearest[1]) and round_count(nearest[1]) == after then
  table.remove(nearest, 1) -- it ends with the given round; changes may follow
end
if nearest[1] then
  -- Earlier rounds may be trimmed. The stored number may be damaged, so the entry's id bounds it.
  local number = round_count(nearest[1])
  local first = nearest[1][2][2] == 'c' and number + 1 or math.min(begin_of(nearest[1]), number)
  first = math.max(after + 1, first)
  entries = read_entries(KEYS[2], nearest[1][1], first + tonumber(ARGV[3]) - 1)
end
return {there[2], entries, there[3] or '0', there[4] or '0', there[5] or ''}
