/* The store of the tutorial's server. */
void put(unsigned key, int value);
int get(unsigned key); /* -1 if there is none */
