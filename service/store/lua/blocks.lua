-- Prepended to scripts that change blocks of predictions, after the counters.
-- KEYS of these scripts: model, log, deadlines of blocks, then the blocks.
-- Layouts: service/store/records/layout.py. A record may be damaged, so its lengths are verified before they are used,
-- and its checks before it is joined.
local BEFORE_KEYS = 3
-- Calls of locals are faster than those of fields of tables.
local sub, byte, pack, read, sha1hex, number_of = string.sub, string.byte, struct.pack, struct.unpack, redis.sha1hex, tonumber
local AFTER_CHECK = '<' .. string.sub(OUTCOME, #CHECK + 1) -- the format of an outcome without its check
local FORGET_AFTER = 3600 -- seconds that a closed block of a model with deadlines is kept after its window

-- Reads a model's counters and its rule for closing predictions (service/models/policies.py).
-- Returns nil, and the script's reply, if the model is gone or damaged.
local function open_log(incarnation)
  local there = redis.call('HMGET', KEYS[1], 'incarnation', 'rounds', 'changes', 'closing', 'digest')
  if there[1] ~= incarnation then
    return nil, false
  end
  local changes = there[3] or '0'
  if not is_count(there[2] or '') or not is_count(changes) then
    return nil, redis.error_reply('CORRUPT the number of its rounds or changes is damaged')
  end
  if not ends_log(KEYS[2], there[2], changes) then
    return nil, redis.error_reply('CORRUPT the log does not end with round ' .. there[2])
  end
  local window, learn, reward = string.match(there[4] or '', '^(%S+) (%S+) (%S+)$')
  if there[4] and not tonumber(window) then
    return nil, redis.error_reply('CORRUPT its rule for closing predictions is damaged')
  end
  local rounds = tonumber(there[2])
  local log = {first = rounds, rounds = rounds, changes = changes, digest = there[5], right = 0, partial = 0, expired = 0, abstained = 0}
  log.closes, log.window, log.waits = there[4], tonumber(window), learn == 'at_window_close'
  log.reward = tonumber(reward) -- nil: expired predictions are dropped
  return log
end

-- Returns whether the model's history begins with one that someone has seen: its number of changes and its digest. The
-- store may have lost a change, and then made another.
local function is_of_history(log, changes, digest)
  if digest == log.digest then
    return true
  end
  log.digests = log.digests or redis.call('HGET', KEYS[1], 'digests') or ''
  return sub(log.digests, #digest * changes + 1, #digest * (changes + 1)) == digest
end

-- Returns whether the answers of a block mean what they meant when they were given.
local function has_history(log, block)
  return is_of_history(log, read('<I4', block.record, HEAD_CHANGES_SEEN), sub(block.record, HEAD_DIGEST, HEAD_BYTES))
end

local function check_of(bytes)
  return number_of(sub(sha1hex(bytes), 1, 2 * CHECK_BYTES), 16)
end

-- Reads a block; returns nil and the status of all its predictions if that is not possible.
local function parse_block(record)
  if type(record) ~= 'string' or #record < HEAD_BYTES then
    return nil, 'b'
  end
  local version = byte(record)
  if version ~= VERSION then
    return nil, version > VERSION and 'n' or 'b'
  end
  local _, n, flags, answer_bytes, common, _, expires_at, released_at, abstention = read(HEAD, record)
  local block = {record = record, n = n, answer_bytes = answer_bytes, common = common, expires_at = expires_at}
  block.released_at, block.abstention = released_at, abstention
  block.prediction, block.slot = PREDICTION_BYTES + answer_bytes, OUTCOME_BYTES + answer_bytes
  block.check_at = HEAD_BYTES + n * block.prediction
  block.open_at = block.check_at + CHECK_BYTES
  block.outcomes_at = block.open_at + OPEN_COUNT_BYTES
  block.bodies_at = block.outcomes_at + n * block.slot
  if n < 1 or #record < block.bodies_at then
    return nil, 'b'
  end
  if check_of(sub(record, 1, block.check_at)) ~= read(CHECK, record, block.check_at + 1) then
    return nil, 'b'
  end
  if flags ~= 0 then
    return nil, 'n'
  end
  block.seen = sub(record, HEAD_ROUNDS_SEEN, HEAD_BYTES)
  block.nothing, block.unknown = string.rep('\0', block.slot), string.rep('\255', answer_bytes)
  block.inactive = string.rep('\0', OUTCOME_KIND - 1) .. string.char(INACTIVE)
    .. string.rep('\0', block.slot - OUTCOME_KIND)
  block.fresh, block.rounds, block.closed, block.first, block.last = {}, {}, 0, n, -1
  return block
end

-- Returns the stored block, or nil and the status of all its predictions.
local function read_block(key)
  local record = redis.pcall('GET', key)
  if not record then
    return nil, 'u'
  end
  return parse_block(record)
end

local function prediction_of(block, i)
  local at = HEAD_BYTES + i * block.prediction
  return sub(block.record, at + 1, at + block.prediction)
end

-- Returns what identifies a prediction in its outcome and its round.
local function token_and_check_of(prediction)
  return sub(prediction, PREDICTION_TOKEN, PREDICTION_PROPENSITY - 1)
end

local function outcome_of(block, i)
  local at = block.outcomes_at + i * block.slot
  return block.fresh[i] or sub(block.record, at + 1, at + block.slot)
end

local function kind_of(outcome)
  return byte(outcome, OUTCOME_KIND)
end

-- Returns whether a prediction still needs its body.
local function is_open(block, outcome)
  return outcome == block.nothing or outcome == block.inactive or kind_of(outcome) == PENDING
end

-- Returns what follows the check of the body in the round of an open prediction; nil if it is damaged.
local function body_of(block, i, prediction)
  local upto, _, check = read(PREDICTION, prediction)
  local from = i == 0 and 0 or read(PREDICTION, block.record, HEAD_BYTES + (i - 1) * block.prediction + 1)
  local body = sub(block.record, block.bodies_at + from + 1, block.bodies_at + upto)
  local common = block.common > 0 and sub(block.record, -block.common) or ''
  local whole = sub(prediction, PREDICTION_PROPENSITY) .. block.seen .. body .. common
  return #body == upto - from and check_of(whole) == check and whole or nil
end

-- Returns the status of an outcome that is damaged or of a newer version; nil if it is readable.
local function trouble_with(outcome, token_and_check)
  local check, kind, reward = read(OUTCOME, outcome)
  if check_of(sub(outcome, OUTCOME_KIND) .. token_and_check) ~= check then
    return 'b'
  end
  local known = kind == FEEDBACK or kind == EXPIRED or kind == PENDING
  return (not known or not (reward >= 0 and reward <= 1)) and 'n' or nil
end

local function write_outcome(block, i, token_and_check, kind, reward, at, round, truth)
  local said = pack(AFTER_CHECK, kind, reward, at, round) .. truth
  local outcome = pack(CHECK, check_of(said .. token_and_check)) .. said
  block.fresh[i] = outcome
  block.first, block.last = i < block.first and i or block.first, i > block.last and i or block.last
  return outcome
end

-- Closes a prediction as the next round of the log; returns its outcome.
local function close(log, block, i, token_and_check, kind, reward, at, truth, body)
  local place = #block.rounds + 1
  local outcome = write_outcome(block, i, token_and_check, kind, reward, at, log.rounds + place, truth)
  local length = pack('<I4', 4 + #outcome + #token_and_check + #body)
  block.moment, block.closed = block.moment or at, block.closed + 1
  block.rounds[place] = length .. outcome .. token_and_check .. body
  log.right = log.right + (reward == 1 and 1 or 0)
  log.partial = log.partial + (reward < 1 and reward or 0)
  log.expired = log.expired + (kind == EXPIRED and 1 or 0)
  log.abstained = log.abstained + (reward > 0 and reward < 1 and truth ~= block.unknown and 1 or 0)
  return outcome
end

-- Returns the number of open predictions in a block. The stored number may be damaged, so zero is verified: an open
-- prediction needs its body.
local function open_in(block)
  local open = read(OPEN_COUNT, block.record, block.open_at + 1) - block.closed
  if open > 0 then
    return open
  end
  open = 0
  for i = 0, block.n - 1 do
    open = open + (is_open(block, outcome_of(block, i)) and 1 or 0)
  end
  return open
end

local function outcomes_in(block, from, upto)
  local outcomes = {}
  for i = from, upto do
    outcomes[#outcomes + 1] = outcome_of(block, i)
  end
  return table.concat(outcomes)
end

local function append_rounds(log, id, block)
  local number = log.rounds + #block.rounds
  local entry = string.format('%.0f-%s', number, log.changes)
  redis.call('XADD', KEYS[2], entry, 't', 'r', 'v', VERSION, 'p', id, 'd', table.concat(block.rounds))
  log.rounds, log.last_at = number, block.moment
end

-- Stores the new outcomes of a block and its new rounds.
local function keep(log, key, id, block, now)
  local open = open_in(block)
  if #block.rounds > 0 then
    append_rounds(log, id, block)
  end
  local still_open = pack(OPEN_COUNT, open)
  if open > 0 then
    redis.call('SETRANGE', key, block.open_at, still_open)
    local at = block.outcomes_at + block.first * block.slot
    redis.call('SETRANGE', key, at, outcomes_in(block, block.first, block.last))
    return
  end
  -- All predictions are closed: drop the bodies.
  local head = sub(block.record, 1, block.open_at)
  redis.call('SET', key, head .. still_open .. outcomes_in(block, 0, block.n - 1), 'KEEPTTL')
  book_open(KEYS[1], block.released_at, -(#block.record + KEY_BYTES))
  if log.closes then -- an open prediction of such a model is kept much longer
    local left = math.max(block.expires_at - now, 0) + FORGET_AFTER
    redis.call('EXPIRE', key, string.format('%.0f', math.ceil(left)))
    redis.call('ZREM', KEYS[3], id)
  end
end

-- Updates the counters: once, and also if a damaged record stopped the script. A damaged counter must not fail it.
local function count_rounds(log)
  if log.rounds == log.first then
    return
  end
  redis.call('HINCRBY', KEYS[1], 'rounds', log.rounds - log.first)
  redis.pcall('HINCRBY', KEYS[1], 'correct', log.right)
  if log.partial > 0 then
    redis.pcall('HINCRBYFLOAT', KEYS[1], 'partial', string.format('%.17g', log.partial))
  end
  if log.expired > 0 then
    redis.pcall('HINCRBY', KEYS[1], 'expired', log.expired)
  end
  if log.abstained > 0 then
    redis.pcall('HINCRBY', KEYS[1], 'abstained', log.abstained)
  end
  redis.call('HSET', KEYS[1], 'last_at', string.format('%.17g', log.last_at))
end

local function reply_of(trouble)
  local plain = type(trouble) == 'table' and trouble.err or tostring(trouble)
  return redis.error_reply((string.gsub(plain, '^@?user_script:%d+: ', '')))
end

