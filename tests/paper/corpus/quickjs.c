/* Runs a script: objects, closures, strings, regular expressions and sorting. */
#include "quickjs.h"
#include "work.h"
#include <stdio.h>
#include <string.h>

static const char script[] =
    "class Account { constructor(id) { this.id = id; this.total = 0; this.notes = []; }\n"
    "  book(amount, text) { this.total += amount; this.notes.push({amount, text}); return this; } }\n"
    "let checksum = 0;\n"
    "for (let round = 0; round < rounds; round++) {\n"
    "  const accounts = new Map();\n"
    "  for (let i = 0; i < 3000; i++) {\n"
    "    const id = (i * 7919 + round) % 257;\n"
    "    if (!accounts.has(id)) accounts.set(id, new Account(id));\n"
    "    accounts.get(id).book(i % 100 - 40, `order ${i} of ${id}`);\n"
    "  }\n"
    "  const sorted = [...accounts.values()].sort((a, b) => a.total - b.total || a.id - b.id);\n"
    "  const text = JSON.stringify(sorted.slice(0, 40));\n"
    "  const again = JSON.parse(text).map(a => a.notes.filter(n => n.amount > 0).length);\n"
    "  checksum = (checksum * 31 + again.reduce((a, b) => a + b, 0) + text.replace(/order (\\d+)/g, (m, n) => n).length) % 1000000007;\n"
    "}\n"
    "checksum + ''";

int main(int argc, char **argv) {
    JSRuntime *runtime = JS_NewRuntime();
    JSContext *context = JS_NewContext(runtime);
    JSValue everything = JS_GetGlobalObject(context);
    JS_SetPropertyStr(context, everything, "rounds", JS_NewInt32(context, rounds(argc, argv, 40)));
    JS_FreeValue(context, everything);
    JSValue answer = JS_Eval(context, script, strlen(script), "script", JS_EVAL_TYPE_GLOBAL);
    const char *text = JS_ToCString(context, JS_IsException(answer) ? JS_GetException(context) : answer);
    printf("%s\n", text);
    int failed = JS_IsException(answer);
    JS_FreeCString(context, text);
    JS_FreeValue(context, answer);
    JS_FreeContext(context);
    return failed;
}
