-- release: gives a load's claim back, if it is still that load's.
-- KEYS: 1 claim
-- ARGV: 1 the load's own token
-- Answers 1 when it was given back, else 0.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
