-- Prepended to scripts that read the counters of a model. These may be damaged.
local function is_count(digits)
  return string.match(digits, '^%d+$') and #digits <= 15 and (digits == '0' or string.byte(digits) ~= 48)
end

-- Returns whether the log ends with the entry that the counters name. A log with a lost end, or with further entries,
-- accepts no rounds.
local function ends_log(log, rounds, changes)
  local id = rounds .. '-' .. changes
  local last = redis.call('XRANGE', log, id, '+', 'COUNT', 2)
  return id == '0-0' and not last[1] or #last == 1 and last[1][1] == id
end

