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
--          money
--          its window's start, the next one's and what was spent
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

local function refill(s, to, top)
  local level, part, stamp = min(max(s.level, -s.burst), top), min(s.part, s.period - 1), s.stamp
  if to < stamp then
    stamp = to
  end
  local units = floor((to - stamp) / s.unit)
  if units >= floor(((top - level) * s.period - part + s.amount - 1) / s.amount) then
    s.level, s.stamp, s.part = top, to, 0
    return
  end
  local inflow = units * s.amount + part
  local whole = floor(inflow / s.period)
  s.level, s.part, s.stamp = level + whole, inflow - whole * s.period, stamp + units * s.unit
end

local function top(s)
  return max(s.burst - s.cur - s.prev, -s.burst)
end

local function till(s, ending, us)
  if ending > 0 and us > s.stamp and s.form == RATE then
    refill(s, us, top(s))
  end
end

local path = {}
local share, all = GRAIN, true
local at = 1
for i = 1, #names - 1 do
  -- All fields at once, so that the table is made in its size.
  local s = {form = 0, amount = 0, period = 0, unit = 0, burst = 0, level = 0, stamp = 0, part = 0,
    gen = 0, cur = 0, prev = 0, want = 0, held = 0}
  local cold, want, used, back, refund, from, next, spent
  s.form, s.amount, s.period, s.unit, s.burst, cold, want, used, back, refund, from, next, spent, at =
    unpack_('<ddddddddddddd', ARGV[2], at)
  local burst = s.burst
  if now >= next then
    from, spent = next, -1
  end
  if stored[i + 1] then
    s.level, s.stamp, s.part, s.gen, s.cur, s.prev = unpack_('<dddddd', stored[i + 1])
  else
    s.gen, s.cur, s.prev = gen, 0, 0
    cold = floor(burst / 100) * cold + floor(burst % 100 * cold / 100)
    if s.form == SLOTS then
      s.level, s.stamp, s.part = 0, 0, 0
    elseif s.form == MONEY then
      s.level, s.stamp, s.part = burst, from, burst
      if spent >= 0 then
        s.level = max(burst - spent, -burst)
      elseif lost >= from then
        s.level = cold
      end
    elseif lost < 0 then
      s.level, s.stamp, s.part = burst, now, 0
    else
      s.level, s.stamp, s.part = cold, lost, 0
    end
  end

  -- What is over, and what has flowed in.
  if s.gen < gen then
    till(s, s.prev, began(s.gen + 1))
    s.prev, s.cur = s.cur, 0
    if s.gen + 1 < gen then
      till(s, s.prev, began(s.gen + 2))
      s.prev = 0
    end
    s.gen = gen
  end
  if s.form == SLOTS then
    s.level, s.stamp, s.part = top(s), 0, 0
  elseif s.form == MONEY then
    if s.stamp < from then
      s.level, s.stamp, s.part = top(s), from, burst
    end
    s.level, s.part = min(max(s.level + burst - s.part, -burst), top(s)), burst
  else
    refill(s, now, top(s))
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
    if lgen == s.gen then
      s.cur = max(s.cur - held, 0)
    else
      s.prev = max(s.prev - held, 0)
    end
    local returned = min(back, held - covered)
    carried = held - covered - returned
    s.cur = s.cur + carried
    change = change + returned
  end
  if s.form == SLOTS then
    s.level = top(s)
  else
    s.level = min(max(s.level + change, -burst), top(s))
  end

  local there = max(s.level, 0)
  if there < want then
    all = false
    share = min(share, floor((there * GRAIN + want - 1) / want))
  end
  s.want, s.held = want, carried
  path[i] = s
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
  local granted = 0
  if strict == 0 then
    granted = min(floor((s.want * share + GRAIN - 1) / GRAIN), max(s.level, 0))
  elseif all then
    granted = s.want
  end
  s.level = s.level - granted
  if strict == 0 or s.form == SLOTS then
    s.cur = s.cur + granted
    s.held = s.held + granted
  end
  write[#write + 1] = names[i + 1]
  write[#write + 1] = pack('<dddddd', s.level, s.stamp, s.part, s.gen, s.cur, s.prev)
  answer[#answer + 1] = pack('<ddd', granted, s.level, s.held)
end
local reply = table.concat(answer)
redis.call('HSET', KEYS[1], unpack(write))
redis.call('SET', KEYS[3], pack('<ddd', epoch, seq, gen) .. reply, 'PX', lanekeep)
if extend then
  redis.call('PEXPIRE', KEYS[1], keep + 10000)
end
return reply
