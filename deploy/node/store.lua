-- store: writes an entry where nothing stands, while the fence is the one that was looked at.
-- KEYS: 1 entry, 2 fence
-- ARGV: 1 the token of the look, 2 the entry, 3 its life in ms
-- Answers 1 when it was written, 0 when it was refused. An absent fence refuses.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 0
end
if redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) then
  return 1
end
return 0
