-- Appends imported rounds to the log, once for each place in their source. The blocks of their predictions are read
-- from the arguments and never stored, so no feedback can reach them.
-- KEYS: model, log, deadlines (unused), imports.
-- ARGV: incarnation, now, digest of the history that the predictions take into account, source, place of the first round in the
--       source, number of rounds, most sources to keep, then for each block: its id, its record, and the outcomes of its
--       predictions, concatenated: reward f8, the truth (every bit 1 if unknown).
-- Returns nil if the model is gone, otherwise {rounds imported from the source, total rounds, total changes, 1 if this
-- call appended the rounds, else 0}. It appends nothing if the source is at another place, or if the model has changed.
local BEFORE_BLOCKS, REWARD_BYTES = 7, 8
local log, gone = open_log(ARGV[1])
if not log then
  return gone
end
local now, source, place, count = tonumber(ARGV[2]), ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])

local function position_of(text)
  local position = string.match(text or '0 0', '^(%d+) ')
  return position and is_count(position) and tonumber(position)
end

local position = position_of(redis.call('HGET', KEYS[4], source))
if not position then
  return redis.error_reply('CORRUPT the position of an import is damaged')
end
if position ~= place or log.digest ~= ARGV[3] then
  if position > place then -- a repeated call writes as well, so that replicas can confirm it
    redis.call('HSET', KEYS[4], source, string.format('%.0f %.17g', position, now))
  end
  return {position, log.rounds, tonumber(log.changes), 0}
end

-- Reads a block that is not stored, with the bodies of its predictions.
local function read_whole(record, outcomes)
  local block, trouble = parse_block(record)
  if not block or #outcomes ~= block.n * (REWARD_BYTES + block.answer_bytes) then
    error('a record of imported predictions is damaged: ' .. (trouble or 'outcomes'))
  end
  block.bodies = {}
  for i = 0, block.n - 1 do
    block.bodies[i] = body_of(block, i, prediction_of(block, i)) or error('the body of a prediction is damaged')
  end
  return block
end

-- Makes rounds of all predictions of a block.
local function close_all(block, outcomes)
  for i = 0, block.n - 1 do
    local at = i * (REWARD_BYTES + block.answer_bytes)
    local reward = struct.unpack('<d', outcomes, at + 1)
    local truth = string.sub(outcomes, at + 1 + REWARD_BYTES, at + REWARD_BYTES + block.answer_bytes)
    local identity = token_and_check_of(prediction_of(block, i))
    close(log, block, i, identity, FEEDBACK, reward, now, truth, block.bodies[i])
  end
end

-- Forgets the sources that were used least recently.
local function forget_sources(most)
  local fields, found = redis.call('HGETALL', KEYS[4]), {}
  for i = 1, #fields, 2 do
    found[#found + 1] = {fields[i], tonumber(string.match(fields[i + 1], ' (%S+)$')) or 0}
  end
  table.sort(found, function(one, other) return one[2] > other[2] end)
  for i = most + 1, #found do
    if found[i][1] ~= source then
      redis.call('HDEL', KEYS[4], found[i][1])
    end
  end
end

local blocks = {} -- all are read before the first write
for i = BEFORE_BLOCKS + 1, #ARGV, 3 do
  blocks[i] = read_whole(ARGV[i + 1], ARGV[i + 2])
end
for i = BEFORE_BLOCKS + 1, #ARGV, 3 do
  close_all(blocks[i], ARGV[i + 2])
  append_rounds(log, ARGV[i], blocks[i])
end
redis.call('HSET', KEYS[4], source, string.format('%.0f %.17g', position + count, now))
redis.pcall('HINCRBY', KEYS[1], 'predictions', count)
count_rounds(log)
if redis.call('HLEN', KEYS[4]) > tonumber(ARGV[7]) then
  forget_sources(tonumber(ARGV[7]))
end
return {position + count, log.rounds, tonumber(log.changes), 1}
