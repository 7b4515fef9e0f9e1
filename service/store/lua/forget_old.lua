-- Trims rounds from the log that are older than the model's retention, as far as the snapshot includes them.
-- The last round of the snapshot stays, because readers recognize the log by it, and so does the last one of the log.
-- KEYS: model, log, snapshot. ARGV: incarnation, offset of the clock in seconds, most entries to trim.
-- Returns nil if the model is gone, or has no such retention; otherwise when to call again (seconds since the epoch, as
-- text), and 1 if rounds that are too old are not in the snapshot, else 0.
local PAUSE_SECONDS, AT_ONCE = 60, 64
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'retention', 'rounds')
local retention = tonumber(there[2] or '')
if there[1] ~= ARGV[1] or not retention then
  return false
end
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1e6 + ARGV[2]
local snapshot = snapshot_there(KEYS[3])
local included = snapshot.sound and snapshot.rounds or 0

-- Returns when an entry is too old: at once for a damaged one, and for a change, which goes with the rounds before it.
local function too_old_at(entry)
  local mark = rounds_of(entry) and mark_of(entry) or ''
  local at = #mark == 8 and struct.unpack('<d', mark) + retention or now
  return at > now and at or now
end

local first, upcoming, waits, start, left = nil, now + retention, 0, '-', tonumber(ARGV[3])
while left > 0 do
  local page = redis.call('XRANGE', KEYS[2], start, '+', 'COUNT', AT_ONCE)
  for _, entry in ipairs(page) do
    if too_old_at(entry) > now then
      first, upcoming, left = entry[1], too_old_at(entry), 0
      break
    elseif round_count(entry) >= included then
      first, left = entry[1], 0
      if tonumber(there[3]) > included then
        upcoming, waits = now, 1
      end
      break
    end
    first, left = entry[1], left - 1
    start = '(' .. entry[1]
  end
  if #page < AT_ONCE then
    break
  end
end
if first then
  redis.call('XTRIM', KEYS[2], 'MINID', '=', first)
end
return {string.format('%.17g', math.max(upcoming, now + PAUSE_SECONDS)), waits}
