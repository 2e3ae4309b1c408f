/* Turns over the first cards of every order of a small deck until the first card is the lowest. */
#include "work.h"
#include <stdio.h>

int main(int argc, char **argv) {
    int cards = rounds(argc, argv, 10), order[16], turned[16], count[16], most = 0, sum = 0, left = cards;
    for (int i = 0; i < cards; i++) order[i] = i;
    for (int number = 0;; number++) {
        for (; left != 1; left--) count[left - 1] = left;
        for (int i = 0; i < cards; i++) turned[i] = order[i];
        int turns = 0;
        for (int first = turned[0]; first != 0; first = turned[0], turns++)
            for (int low = 0, high = first; low < high; low++, high--) {
                int card = turned[low];
                turned[low] = turned[high], turned[high] = card;
            }
        if (turns > most) most = turns;
        sum += number % 2 ? -turns : turns;
        for (;; left++) {
            if (left == cards) {
                printf("%d %d\n", sum, most);
                return 0;
            }
            int first = order[0];
            for (int i = 0; i < left; i++) order[i] = order[i + 1];
            order[left] = first;
            if (--count[left] > 0) break;
        }
    }
}
