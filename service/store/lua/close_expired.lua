#!lua flags=allow-oom
-- Closes the predictions of expired blocks: feedback that waits becomes a round, and other predictions become a round
-- with the reward that the model's rule names, or none; also none if it has seen changes that the store has lost.
-- Running it again changes nothing.
-- KEYS: model, log, deadlines, then the blocks. ARGV: incarnation, offset of the clock in seconds, most blocks to name,
-- then the id of each block.
-- Returns nil if the model is gone, otherwise when to call again (seconds since the epoch, as text; empty: never), the
-- number of the newest round (0: none appended), the ids of the next expired blocks, and how many blocks a newer version
-- has made. Blocks named in the reply are given in the next call.
local BEFORE_IDS = 3
local PAUSE_SECONDS = 1 -- between two calls for one model, however short its window is
local REST_SECONDS = 0.5 -- by which the next visit to an idle model may be late: fewer visits
local MOST_ROUNDS = 256 -- after which the call returns, because it blocks the store; the other blocks stay due
local NEWER_SECONDS = 1.5 -- for which a block of a newer version is left to workers that can read it
local newer = 0
local log, gone = open_log(ARGV[1])
if not log then
  return gone
end
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1e6 + ARGV[2]

-- Writes an outcome without a round, so that later feedback has expired by every clock.
local function drop(block, i, token_and_check)
  write_outcome(block, i, token_and_check, EXPIRED, 0, now, 0, block.unknown)
  block.closed = block.closed + 1
end

-- Closes one prediction; does nothing if it is closed, or damaged.
local function close_one(block, i)
  local prediction, outcome = prediction_of(block, i), outcome_of(block, i)
  local token_and_check, answer = token_and_check_of(prediction), string.sub(prediction, PREDICTION_OUTPUT)
  local waits = outcome ~= block.nothing and outcome ~= block.inactive and kind_of(outcome) == PENDING
  if not is_open(block, outcome) or (waits and trouble_with(outcome, token_and_check)) then
    return
  end
  local body = body_of(block, i, prediction)
  if not body then
    return
  end
  if not has_history(log, block) then
    redis.pcall('HINCRBY', KEYS[1], 'refused:history-lost', waits and 1 or 0)
    drop(block, i, token_and_check)
  elseif waits then
    local _, _, reward, at = struct.unpack(OUTCOME, outcome)
    close(log, block, i, token_and_check, FEEDBACK, reward, at, string.sub(outcome, OUTCOME_TRUTH), body)
  elseif log.reward and outcome == block.nothing then
    local truth = log.reward == 1 and answer or block.unknown
    close(log, block, i, token_and_check, EXPIRED, log.reward, now, truth, body)
  else
    drop(block, i, token_and_check)
  end
end

local function close_all(key, id)
  local block, trouble = read_block(key)
  if trouble == 'n' then
    newer = newer + 1
    redis.call('ZADD', KEYS[3], 'XX', string.format('%.17g', now + NEWER_SECONDS), id)
    return
  end
  if block and now <= block.expires_at then
    redis.call('ZADD', KEYS[3], 'XX', string.format('%.17g', block.expires_at), id)
    return
  end
  for i = 0, block and block.n - 1 or -1 do
    close_one(block, i)
  end
  if block and block.last >= 0 then
    keep(log, key, id, block, now)
  end
  redis.call('ZREM', KEYS[3], id)
end

local done, trouble = pcall(function()
  for i = BEFORE_KEYS + 1, #KEYS do
    if log.rounds - log.first >= MOST_ROUNDS then
      break
    end
    close_all(KEYS[i], ARGV[BEFORE_IDS + i - BEFORE_KEYS])
  end
end)
count_rounds(log)
if not done then
  return reply_of(trouble)
end
local earliest, due = redis.call('ZRANGE', KEYS[3], 0, ARGV[3] - 1, 'WITHSCORES'), {}
for i = 2, #earliest, 2 do
  if tonumber(earliest[i]) < now then
    due[#due + 1] = earliest[i - 1]
  end
end
-- A prediction made after this call expires at least one window later.
local upcoming = math.min(tonumber(earliest[2]) or math.huge, log.window and now + log.window + REST_SECONDS or math.huge)
if upcoming < math.huge then
  upcoming = string.format('%.17g', math.max(upcoming, now + PAUSE_SECONDS))
end
return {upcoming == math.huge and '' or upcoming, log.rounds > log.first and log.rounds or 0, due, newer}
