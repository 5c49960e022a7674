-- SPDX-License-Identifier: MIT
-- Mark-sweep: the collector is stopped, and run when so many KiB are taken. Customers as objects, closures and events
-- in a queue.
collectgarbage("stop")
local limit = tonumber(arg[1]) or 200
local seed = 7

local function random(most)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed // 256 % most
end

local function customer(number)
  local basket = {}
  return function()
    for _ = 1, 1 + random(3) do basket[#basket + 1] = { article = "article " .. random(300), count = random(9) } end
    return random(4) > 0, number, basket
  end
end

local queue, sold = {}, 0
for i = 1, tonumber(arg[2]) or 1500 do
  queue[#queue + 1] = customer(i)
  -- As many as have come go, so that it works alike however long it runs.
  while #queue > 60 do
    local place = 1 + random(#queue)
    local again, _, basket = queue[place]()
    if not again then
      sold = sold + #basket
      table.remove(queue, place)
    end
  end
  if collectgarbage("count") > limit then collectgarbage("collect") end
end
print(sold, #queue)
