// Arguments and environment, and the code that the first argument names.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static void last(void) {
    puts("last words");
}

int main(int count, char **arguments) {
    printf("%d arguments\n", count - 1);
    for (int i = 1; i < count; i++) printf("<%s> %zu\n", arguments[i], strlen(arguments[i]));
    printf("after the last: %d\n", arguments[count] == NULL);
    int variables = 0;
    while (environ[variables]) variables++;
    printf("%d variables\n", variables);
    const char *names[] = {"NAME", "EMPTY", "EQUALS", "NONE"};
    for (int i = 0; i < 4; i++) {
        char *value = getenv(names[i]);
        printf("%s=%s\n", names[i], value ? value : "(none)");
    }
    setenv("NAME", "changed", 1);
    printf("%s\n", getenv("NAME"));
    atexit(last);
    return count > 1 ? atoi(arguments[1]) : 0;
}
