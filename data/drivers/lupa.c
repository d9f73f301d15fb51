/* Lua, which lupa brings along: a script with tables, strings, closures and coroutines. */
#include "driver.h"
#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

static const char script[] =
    "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end\n"
    "local words, count = {}, 0\n"
    "for word in text:gmatch('%a+') do words[word] = (words[word] or 0) + 1; count = count + 1 end\n"
    "local sorted = {}\n"
    "for word, n in pairs(words) do sorted[#sorted + 1] = string.format('%05d %s', n, word) end\n"
    "table.sort(sorted)\n"
    "local sieve, primes = {}, 0\n"
    "for i = 2, 4000 do if not sieve[i] then primes = primes + 1; for j = i * i, 4000, i do sieve[j] = true end end end\n"
    "local odd = coroutine.wrap(function() for i = 1, 600 do if i % 2 == 1 then coroutine.yield(i) end end end)\n"
    "local total = 0\n"
    "for i in odd do total = total + i end\n"
    "local Point = {}; Point.__index = Point\n"
    "Point.__add = function(a, b) return setmetatable({x = a.x + b.x, y = a.y + b.y}, Point) end\n"
    "local p = setmetatable({x = 0, y = 1}, Point)\n"
    "for i = 1, 1500 do p = p + setmetatable({x = i, y = -i}, Point) end\n"
    "return table.concat({fib(17), count, #sorted, sorted[#sorted], primes, total, p.x, p.y,\n"
    "  (text:gsub('t%w', function(s) return s:upper() end)):sub(1, 60):gsub('\\n', ' ') .. ''}, ' ')\n";

int main(void)
{
    static char text[8000];
    lua_State *state = luaL_newstate();
    driver_text(text, sizeof text);
    luaL_openlibs(state);
    lua_pushlstring(state, text, sizeof text);
    lua_setglobal(state, "text");
    if (luaL_dostring(state, script)) {
        printf("%s\n", lua_tostring(state, -1));
        return 1;
    }
    printf("%s\n", lua_tostring(state, -1));
    lua_close(state);
    return 0;
}
