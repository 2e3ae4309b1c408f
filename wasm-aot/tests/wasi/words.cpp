// Counts words: strings, maps, streams and sorting of C++.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

struct Announced {
    ~Announced() { std::cout << "destroyed" << std::endl; }
} announced;

int main(int count, char **arguments) {
    std::map<std::string, int> words;
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream stream(line);
        for (std::string word; stream >> word;) words[word]++;
    }
    std::vector<std::pair<std::string, int>> sorted(words.begin(), words.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](auto &a, auto &b) { return a.second > b.second; });
    std::FILE *file = std::fopen("counts", "w");
    for (auto &[word, times] : sorted) std::fprintf(file, "%s %d\n", word.c_str(), times);
    std::fclose(file);
    for (auto &[word, times] : sorted) std::cout << word << '\t' << times << '\n';
    std::vector<double> numbers(100);
    std::iota(numbers.begin(), numbers.end(), 0.5);
    std::cout.precision(12);
    std::cout << std::accumulate(numbers.begin(), numbers.end(), 0.0) << ' ' << count << std::endl;
    return 0;
}
