/* Loads a plugin, calls it, and unloads it, again and again. Not compiled with probes itself. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    long sum = 0;
    for (int i = 0; i < 30 && argc > 1; i++) {
        void *library = dlopen(argv[1], RTLD_NOW);
        if (!library) {
            puts(dlerror());
            return 1;
        }
        int (*plugin)(int) = (int (*)(int))dlsym(library, "plugin");
        sum += plugin(1000);
        dlclose(library);
    }
    printf("%ld\n", sum);
    return 0;
}
