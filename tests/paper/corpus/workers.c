/* A parent that forks workers, a few at a time; each parses documents and answers through a pipe. */
#include "tree_sitter/api.h"
#include "work.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const TSLanguage *tree_sitter_json(void);

enum { WORKERS = 8, AT_ONCE = 2, ENTRIES = 300 };

static uint64_t visit(TSNode node, uint64_t sum) {
    uint32_t facts[3] = {ts_node_symbol(node), ts_node_start_byte(node), ts_node_end_byte(node)};
    sum = checksum(sum, facts, sizeof facts);
    for (uint32_t i = 0; i < ts_node_child_count(node); i++) sum = visit(ts_node_child(node, i), sum);
    return sum;
}

static uint64_t parse(int number, int count) {
    char *document = malloc(ENTRIES * 80 + 16);
    size_t length = 0;
    uint64_t sum = 0;
    TSParser *parser = ts_parser_new();
    ts_parser_set_language(parser, tree_sitter_json());
    for (int round = 0; round < count; round++) {
        length = (size_t)sprintf(document, "[");
        for (int i = 0; i < ENTRIES; i++)
            length += (size_t)sprintf(document + length, "%s{\"id\": %d, \"tags\": [true, null, \"%d\"], \"at\": -%d.5e3}", i ? ",\n" : "", i * number, round, i);
        length += (size_t)sprintf(document + length, "]");
        TSTree *tree = ts_parser_parse_string(parser, NULL, document, (uint32_t)length);
        sum = visit(ts_tree_root_node(tree), sum);
        ts_tree_delete(tree);
    }
    ts_parser_delete(parser);
    free(document);
    return sum;
}

int main(int argc, char **argv) {
    int count = rounds(argc, argv, 24), pipes[WORKERS][2];
    uint64_t sum = 0, answer;
    for (int worker = 0; worker < WORKERS + AT_ONCE; worker++) {
        int done = worker - AT_ONCE, status;
        if (done >= 0) {
            if (read(pipes[done][0], &answer, sizeof answer) != sizeof answer) return 1;
            sum = checksum(sum, &answer, sizeof answer);
            if (wait(&status) < 0 || status) return 1;
        }
        if (worker < WORKERS) {
            if (pipe(pipes[worker])) return 1;
            pid_t child = fork();
            if (child < 0) return 1;
            if (child == 0) {
                answer = parse(worker + 1, count);
                _exit(write(pipes[worker][1], &answer, sizeof answer) != sizeof answer);
            }
        }
    }
    printf("%016lx\n", (unsigned long)sum);
    return 0;
}
