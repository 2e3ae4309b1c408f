/* Fills a table of a database in memory, and asks it questions. */
#include "sqlite3.h"
#include "work.h"
#include <stdio.h>
#include <string.h>

static int take(void *sum, int columns, char **values, char **names) {
    (void)names;
    for (int i = 0; i < columns; i++)
        if (values[i]) *(uint64_t *)sum = checksum(*(uint64_t *)sum, values[i], strlen(values[i]));
    return 0;
}

static void ask(sqlite3 *database, const char *question, uint64_t *sum) {
    char *error = NULL;
    if (sqlite3_exec(database, question, take, sum, &error)) {
        fprintf(stderr, "sqlite: %s\n", error);
        exit(1);
    }
}

int main(int argc, char **argv) {
    int rows = rounds(argc, argv, 300000);
    sqlite3 *database;
    uint64_t sum = 0;
    char question[256];
    if (sqlite3_open(":memory:", &database)) return 1;
    ask(database, "create table goods(id integer primary key, name text, kind int)", &sum);
    ask(database, "create index by_kind on goods(kind)", &sum);
    ask(database, "begin", &sum);
    for (int i = 0; i < rows; i++) {
        snprintf(question, sizeof question, "insert into goods values(%d, 'name %d', %d)", i, (int)(i * 7919L % rows), i * 31 % 1000);
        ask(database, question, &sum);
    }
    ask(database, "commit", &sum);
    for (int i = 0; i < 40; i++) {
        snprintf(question, sizeof question, "select count(*), sum(id), max(name) from goods where kind between %d and %d", i * 20, i * 20 + 100);
        ask(database, question, &sum);
    }
    ask(database, "select name, count(*) from goods group by name order by 2 desc, 1 limit 20", &sum);
    sqlite3_close(database);
    printf("%016lx\n", (unsigned long)sum);
    return 0;
}
