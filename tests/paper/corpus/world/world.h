/* Included before anything else of a program that is to have a host to speak of: what was its
   `main` is called by world.c's. */
#ifdef __cplusplus
extern "C"
#endif
    int program_main(int argc, char **argv);
#define main program_main
