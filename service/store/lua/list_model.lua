-- Reads the list entry of a model: the length of its definition, but not the definition.
-- KEYS: model. Returns whether it exists (1/0), bytes of the definition, and the fields, false for each missing one.
return {redis.call('EXISTS', KEYS[1]), redis.call('HSTRLEN', KEYS[1], 'definition'),
  redis.call('HMGET', KEYS[1], 'incarnation', 'created_at', 'rounds', 'predictions', 'correct', 'partial', 'abstained',
    'damaged', 'overview', 'summary', 'digest')}
