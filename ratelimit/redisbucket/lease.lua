-- One call for a lease: the arithmetic of ratelimit.Account, in doubles that hold only whole
-- numbers below 2^53, so that every result is the same to the bit.
--
-- KEYS[1]  the organisation's hash; a field per limit: level stamp part generation current previous,
--          and the field "": generation start length since, and until when the hash is kept in ms
-- KEYS[2]  the organisation's mark: epoch lost policy. It is never dropped.
-- KEYS[3]  the lane's last answer: epoch sequence generation, then the answer
-- ARGV[1]  now (0: this server's clock), epoch, young, policy, sequence, ttl in µs, strict, how long
--          the hash and the lane must be kept in ms
-- ARGV[2]  for each limit: form, amount, period, unit, burst, cold, want, used, back, refund, and of
--          money its window's start, the next one's and what was spent
-- ARGV[3…] the limits' names
--
-- All numbers are doubles, little end first. Answers status, epoch, validity in µs, then for each
-- limit: granted, level, held.
local RATE, SLOTS, MONEY = 0, 1, 2
local GRAIN = 65536
local floor, min, max = math.floor, math.min, math.max
local pack, unpack_ = struct.pack, struct.unpack

local now, epoch, young, policy, seq, ttl, strict, keep, lanekeep = unpack_('<ddddddddd', ARGV[1])
if now == 0 then
  local clock = redis.call('TIME')
  now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
end

local known = redis.call('MGET', KEYS[2], KEYS[3])
local mepoch, lost, mpolicy = 0, 0, 0
if known[1] then
  mepoch, lost, mpolicy = unpack_('<ddd', known[1])
end
local lepoch, lseq, lgen = 0, 0, 0
if known[2] then
  lepoch, lseq, lgen = unpack_('<ddd', known[2])
end
if seq == lseq then
  return string.sub(known[2], 25)
end
if seq < lseq then
  return pack('<ddd', 3, mepoch, 0)
end
if epoch < mepoch or policy < mpolicy then
  return pack('<ddd', 2, mepoch, 0)
end
if epoch > mepoch then
  lost = (mepoch == 0 and young == 1) and -1 or now
  redis.call('DEL', KEYS[1])
end
if epoch > mepoch or policy > mpolicy then
  redis.call('SET', KEYS[2], pack('<ddd', epoch, lost, policy))
end

local names = {''}
for i = 3, #ARGV do
  names[i - 1] = ARGV[i]
end
local stored = redis.call('HMGET', KEYS[1], unpack(names))

-- The generation.
local gen, start, length, since, kept
if stored[1] then
  gen, start, length, since, kept = unpack_('<ddddd', stored[1])
else
  gen = floor(now / ttl)
  start, length, since, kept = gen * ttl, ttl, gen * ttl, 0
end
if ttl > length then
  length, since = ttl, now
end
if now < start then
  start, since = now, now
end
local passed = floor((now - start) / length)
gen, start = gen + passed, start + passed * length
local function began(n)
  return max(start - (gen - n) * length, min(since, start))
end
local alive = lepoch == epoch and lgen <= gen and lgen >= gen - 1

-- refill answers level, stamp and part of a rate as they are at a time, beside what routers hold.
local function refill(level, stamp, part, to, top, amount, period, unit, burst)
  level, part = min(max(level, -burst), top), min(part, period - 1)
  if to < stamp then
    stamp = to
  end
  local units = floor((to - stamp) / unit)
  if units >= floor(((top - level) * period - part + amount - 1) / amount) then
    return top, to, 0
  end
  local inflow = units * amount + part
  local whole = floor(inflow / period)
  return level + whole, stamp + units * unit, inflow - whole * period
end

local path = {}
local share, all = GRAIN, true
local at = 1
for i = 1, #names - 1 do
  local form, amount, period, unit, burst, cold, want, used, back, refund, from, next, spent
  form, amount, period, unit, burst, cold, want, used, back, refund, from, next, spent, at =
    unpack_('<ddddddddddddd', ARGV[2], at)
  if now >= next then
    from, spent = next, -1
  end
  local level, stamp, part, stamped, cur, prev
  if stored[i + 1] then
    level, stamp, part, stamped, cur, prev = unpack_('<dddddd', stored[i + 1])
  else
    stamped, cur, prev = gen, 0, 0
    cold = floor(burst / 100) * cold + floor(burst % 100 * cold / 100)
    level, stamp, part = cold, lost, 0
    if form == SLOTS then
      level, stamp = 0, 0
    elseif form == MONEY then
      level, stamp, part = burst, from, burst
      if spent >= 0 then
        level = max(burst - spent, -burst)
      elseif lost >= from then
        level = cold
      end
    elseif lost < 0 then
      level, stamp = burst, now
    end
  end

  -- What is over, and what has flowed in.
  if stamped < gen then
    local t = began(stamped + 1)
    if form == RATE and prev > 0 and t > stamp then
      level, stamp, part = refill(level, stamp, part, t, max(burst - cur - prev, -burst), amount, period, unit, burst)
    end
    prev, cur = cur, 0
    if stamped + 1 < gen then
      t = began(stamped + 2)
      if form == RATE and prev > 0 and t > stamp then
        level, stamp, part = refill(level, stamp, part, t, max(burst - prev, -burst), amount, period, unit, burst)
      end
      prev = 0
    end
  end
  local top = max(burst - cur - prev, -burst)
  if form == RATE then
    level, stamp, part = refill(level, stamp, part, now, top, amount, period, unit, burst)
  elseif form == SLOTS then
    level, stamp, part = top, 0, 0
  else
    if stamp < from then
      level, stamp, part = top, from, burst
    end
    level, part = min(max(level + burst - part, -burst), top), burst
  end

  -- What the router tells.
  local held = 0
  local place = 25 + 24 + (i - 1) * 24 + 16
  if lepoch == epoch and #known[2] >= place + 7 then
    held = unpack_('<d', known[2], place)
  end
  local covered = min(used, held)
  local change = refund - (used - covered)
  local carried = 0
  if alive then
    if lgen == gen then
      cur = max(cur - held, 0)
    else
      prev = max(prev - held, 0)
    end
    local returned = min(back, held - covered)
    carried = held - covered - returned
    cur = cur + carried
    change = change + returned
  end
  top = max(burst - cur - prev, -burst)
  if form == SLOTS then
    level = top
  else
    level = min(max(level + change, -burst), top)
  end

  local there = max(level, 0)
  if there < want then
    all = false
    share = min(share, floor((there * GRAIN + want - 1) / want))
  end
  path[i] = {form, want, carried, level, stamp, part, cur, prev}
end

-- An idle hash goes away once its buckets are surely full and its leases over. The time is only
-- ever put off, by ten seconds more than needed, so that this writes once in ten seconds.
local needed = floor(now / 1000) + keep
local extend = kept < needed
if extend then
  kept = needed + 10000
end

local write = {'', pack('<ddddd', gen, start, length, since, kept)}
local answer = {pack('<ddd', 1, epoch, ttl)}
for i = 1, #path do
  local s = path[i]
  local form, want, held, level, stamp, part, cur, prev = s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8]
  local granted = 0
  if strict == 0 then
    granted = min(floor((want * share + GRAIN - 1) / GRAIN), max(level, 0))
  elseif all then
    granted = want
  end
  level = level - granted
  if strict == 0 or form == SLOTS then
    cur, held = cur + granted, held + granted
  end
  write[2 * i + 1] = names[i + 1]
  write[2 * i + 2] = pack('<dddddd', level, stamp, part, gen, cur, prev)
  answer[i + 1] = pack('<ddd', granted, level, held)
end
local reply = table.concat(answer)
redis.call('HSET', KEYS[1], unpack(write))
redis.call('SET', KEYS[3], pack('<ddd', epoch, seq, gen) .. reply, 'PX', lanekeep)
if extend then
  redis.call('PEXPIRE', KEYS[1], keep + 10000)
end
return reply
