// Exceptions through functions that no compiler has prepared; each counts its calls itself.
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#define HERE __attribute__((noinline))
static std::map<std::string, long> counts;

struct Noisy {
    std::string &log;
    explicit Noisy(std::string &log) : log(log) { log += '('; }
    HERE ~Noisy() { counts["Noisy::~Noisy"]++; log += ')'; }
};
HERE int throws(int depth, std::string &log) {
    counts["throws"]++;
    Noisy noisy(log);
    if (depth == 0) throw std::runtime_error("deep");
    return throws(depth - 1, log) + 1;
}
HERE int catches(int depth) {
    counts["catches"]++;
    std::string log;
    try {
        return throws(depth, log);
    } catch (const std::exception &error) {
        return (int)log.size() + (int)std::string(error.what()).size();
    }
}
template <typename T> HERE T twice(T a) { counts["twice"]++; return a + a; }

int main() {
    long sum = 0;
    for (int i = 0; i < 300; i++) sum += catches(i % 7) + twice(i) + (long)twice(0.5 * i);
    std::vector<std::string> words;
    for (int i = 0; i < 200; i++) words.push_back(twice(std::string(1, 'a' + i % 26)));
    for (auto &word : words) sum += word.size();
    std::printf("%ld\n", sum);
    for (auto &[name, count] : counts)
        if (name != "twice") std::printf("%s\t%ld\n", name.c_str(), count);
}
