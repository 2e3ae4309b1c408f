/* Runs a script: queens on a board, and strings that are sorted and searched. */
#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"
#include "work.h"
#include <stdio.h>

#ifdef __wasi__
/* What a world without processes and temporary files lacks. */
int system(const char *command) { return (void)command, 0; }
char *tmpnam(char *name) { return (void)name, NULL; }
FILE *tmpfile(void) { return NULL; }
#endif

static const char script[] =
    "local size, solutions = 8, 0\n"
    "local function safe(board, row, column)\n"
    "  for above = 1, row - 1 do\n"
    "    local distance = row - above\n"
    "    local other = board[above]\n"
    "    if other == column or other - distance == column or other + distance == column then return false end\n"
    "  end\n"
    "  return true\n"
    "end\n"
    "local function place(board, row)\n"
    "  if row > size then solutions = solutions + 1 return end\n"
    "  for column = 1, size do\n"
    "    if safe(board, row, column) then board[row] = column place(board, row + 1) end\n"
    "  end\n"
    "end\n"
    "for round = 1, rounds do place({}, 1) end\n"
    "print(solutions)\n"
    "local names = {}\n"
    "for i = 1, 200000 do names[#names + 1] = tostring((i * 7919) % 100003) end\n"
    "table.sort(names)\n"
    "local all = table.concat(names, ',')\n"
    "print(#all, #(all:gsub('9', '')))\n";

int main(int argc, char **argv) {
    lua_State *lua = luaL_newstate();
    luaL_openlibs(lua);
    lua_pushinteger(lua, rounds(argc, argv, 160));
    lua_setglobal(lua, "rounds");
    if (luaL_dostring(lua, script)) {
        fprintf(stderr, "lua: %s\n", lua_tostring(lua, -1));
        return 1;
    }
    lua_close(lua);
    return 0;
}
