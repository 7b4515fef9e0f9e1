-- Follows add_predictions.lua if the log may have rounds or changes that the predictions do not account for, or if there
-- may be no room for them.
if not is_count(there[2] or '') or not is_count(there[3] or '0') then
  return redis.error_reply('CORRUPT the number of its rounds or changes is damaged')
end
local seen, rounds, damage = tonumber(ARGV[2]), tonumber(there[2]), there[5] or '0'
local changes_seen, changes = tonumber(ARGV[3]), tonumber(there[3] or '0')
local last_seen = ARGV[2] .. '-' .. ARGV[3]

-- Returns whether the last entry seen is in the log. A damaged moment of the entry differs from the model's `last_at`,
-- so the caller accepts a match with either one.
local function is_in_log()
  local last = redis.call('XRANGE', KEYS[2], last_seen, last_seen)[1]
  return (seen == 0 and changes_seen == 0) or (last and (ARGV[4] == '' or mark_of(last) == ARGV[4]))
end

local function is_of_this_log()
  if damage ~= ARGV[7] or changes_seen ~= changes or there[8] ~= ARGV[10] then -- newer rounds may be allowed
    return false
  end
  if seen == rounds then
    return is_newest or is_in_log()
  end
  return ARGV[5] == '1' and is_in_log()
end

if seen >= 0 and not is_of_this_log() then
  local entries = read_entries(KEYS[2], last_seen, seen + tonumber(ARGV[6]))
  return {there[2], entries, damage, there[3] or '0', there[8] or ''}
end

local most, open, swept = tonumber(ARGV[9]), is_count(there[7] or '0') and tonumber(there[7] or '0'), false
local added = 0 -- booked after the last block
return add_all(function(bytes)
  local after = added + bytes + KEY_BYTES
  if most > 0 and not swept and not (open and open + after <= most) then
    open, swept = sweep_open(KEYS[1]), true
  end
  local fits = most == 0 or open + after <= most
  added = fits and after or added
  return fits
end)
