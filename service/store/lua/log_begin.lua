-- Prepended to scripts that let a shadow begin with the oldest round of the log.
-- Returns the position before the first entry of the log, as <rounds>-<changes>.
local function log_begin(log, rounds, changes)
  local first = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
  if not first then
    return rounds .. '-' .. changes
  end
  local number = tonumber(string.match(first[1], '%d+$'))
  if not rounds_of(first) then -- a change
    return string.format('%.0f-%.0f', round_count(first), math.max(number - 1, 0))
  end
  local begin = math.max(1, math.min(begin_of(first), round_count(first)))
  return string.format('%.0f-%.0f', begin - 1, number)
end

