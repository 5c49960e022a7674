-- SPDX-License-Identifier: MIT
-- Allocation heavy and deterministic: trees, strings, tables that grow, closures, coroutines. Output must not depend on
-- the order of pairs(), which Lua seeds from addresses.

local seed = 42
local function random(limit)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed // 256 % limit
end

local function tree(depth)
  if depth == 0 then return {} end
  return { left = tree(depth - 1), right = tree(depth - 1), depth = depth }
end

local function count(node)
  if not node.left then return 1 end
  return 1 + count(node.left) + count(node.right)
end

local function trees()
  local long_lived = tree(18)
  for depth = 4, 16, 3 do
    local total = 0
    for _ = 1, 2 ^ (18 - depth) do total = total + count(tree(depth)) end
    print("trees of depth", depth, total)
  end
  print("long lived", count(long_lived))
end

local function strings()
  local words, length = {}, 0
  for i = 1, 300000 do
    words[#words + 1] = string.rep(string.char(97 + random(26)), 1 + random(40)) .. i
    if random(3) == 0 then table.remove(words, 1 + random(#words)) end
    if #words > 500 then words = table.move(words, 250, #words, 1, {}) end
    length = length + #words[#words]
  end
  local text = table.concat(words, " ")
  local swapped = text:gsub("(%a+)(%d+)", "%2%1"):upper()
  print("strings", length, #text, #swapped, swapped:sub(1, 60))
end

local function tables()
  local map, sum = {}, 0
  for i = 1, 1000000 do map["key" .. random(50000)] = i end
  for i = 0, 49999 do
    sum = (sum * 31 + (map["key" .. i] or 0)) % 1000000007
    if i % 3 == 0 then map["key" .. i] = nil end
  end
  local list = {}
  for i = 1, 100000 do list[i] = random(1000000) end
  table.sort(list)
  for i = 1, #list do sum = (sum * 31 + list[i]) % 1000000007 end
  print("tables", sum, list[1], list[50000], list[#list])
end

local function coroutines()
  local function producer(n)
    return coroutine.wrap(function()
      for i = 1, n do coroutine.yield(("%d:%d"):format(n, i)) end
    end)
  end
  local total = 0
  for n = 1, 1000 do
    for item in producer(n) do total = total + #item end
  end
  print("coroutines", total)
end

local function closures()
  local functions = {}
  for i = 1, 500000 do
    local captured = { i, i * 2 }
    functions[i % 1000 + 1] = function(x) captured[1] = captured[1] + x; return captured[1] + captured[2] end
  end
  local total = 0
  for i = 1, #functions do total = total + functions[i](i) end
  print("closures", total)
end

for phase, work in ipairs { trees, strings, tables, coroutines, closures } do
  if phase == 3 then collectgarbage("generational") end
  work()
  collectgarbage()
end
