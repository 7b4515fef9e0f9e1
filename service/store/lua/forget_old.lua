#!lua flags=allow-oom
-- Trims rounds from the log that are older than the model's retention, as far as the snapshot includes them.
-- The last round of the snapshot stays, because readers recognize the log by it, and so does the last one of the log.
-- Rounds that a promotion folds again stay until the snapshot has its change: without them, no other worker could make
-- the change. If the change is not made within ten minutes, it never is.
-- KEYS: model, log, snapshot, shadows. ARGV: incarnation, offset of the clock in seconds, most entries to trim.
-- Returns nil if the model is gone, or has no such retention; otherwise when to call again (seconds since the epoch, as
-- text), and 1 if rounds that are too old are not in the snapshot, else 0.
local PAUSE_SECONDS, AT_ONCE, HELD_SECONDS = 60, 64, 600
local there = redis.call('HMGET', KEYS[1], 'incarnation', 'retention', 'rounds', 'changes')
local retention = tonumber(there[2] or '')
if there[1] ~= ARGV[1] or not retention then
  return false
end
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1e6 + ARGV[2]
local snapshot = snapshot_there(KEYS[3])
local included = snapshot.sound and snapshot.rounds or 0

-- Returns the round after which a promotion needs the rounds; nil if none does.
local function held_after()
  local hold = redis.call('HMGET', KEYS[4], ':promotion:change', ':promotion:since', ':promotion:at')
  local change = tonumber(hold[1] or '')
  if not change then
    return nil
  end
  local is_made = tonumber(there[4] or '0') >= change
  local is_seen = snapshot.sound and snapshot.changes >= change
  if is_seen or (not is_made and clock[1] - (tonumber(hold[3] or '') or 0) > HELD_SECONDS) then
    redis.call('HDEL', KEYS[4], ':promotion:change', ':promotion:since', ':promotion:at')
    return nil
  end
  return tonumber(string.match(hold[2] or '', '^%d+'))
end

-- Writes a short log anew. The store keeps the bytes of a trimmed entry until all entries of its node (at most 100, or
-- 4 KiB) are trimmed: without traffic, for as long as the model exists.
local function erase_trimmed()
  local left = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', AT_ONCE + 1)
  if #left > AT_ONCE then
    return
  end
  redis.call('UNLINK', KEYS[2])
  for _, entry in ipairs(left) do
    redis.call('XADD', KEYS[2], entry[1], unpack(entry[2]))
  end
end

local held = held_after()
local needed = math.min(included, held or included)

-- Returns when an entry is too old: at once for a damaged one, and for a change, which goes with the rounds before it.
local function too_old_at(entry)
  local mark = rounds_of(entry) and mark_of(entry) or ''
  local at = #mark == 8 and struct.unpack('<d', mark) + retention or now
  return at > now and at or now
end

local first, upcoming, waits, start, left = nil, now + retention, 0, '-', tonumber(ARGV[3])
local pause = PAUSE_SECONDS
while left > 0 do
  local page = redis.call('XRANGE', KEYS[2], start, '+', 'COUNT', AT_ONCE)
  for _, entry in ipairs(page) do
    if too_old_at(entry) > now then
      first, upcoming, left = entry[1], too_old_at(entry), 0
      break
    elseif round_count(entry) >= needed then
      first, left = entry[1], 0
      if tonumber(there[3]) > included or held then
        upcoming, waits = now, 1
      end
      break
    end
    first, left = entry[1], left - 1
    if left == 0 then -- more may be too old: due again now, after the other due models
      upcoming, pause = now, 0
    end
    start = '(' .. entry[1]
  end
  if #page < AT_ONCE then
    break
  end
end
if first and redis.call('XTRIM', KEYS[2], 'MINID', '=', first) > 0 then
  erase_trimmed()
end
return {string.format('%.17g', math.max(upcoming, now + pause)), waits}
