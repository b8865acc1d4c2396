-- renew: keeps a load's claim alive, if it is still that load's.
-- KEYS: 1 claim
-- ARGV: 1 the load's own token, 2 the claim's life in ms
-- Answers 1 when it was renewed, 0 when it is another's or has run out.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
