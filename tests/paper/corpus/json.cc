// Makes, prints, reads and changes documents: all of it templates of a header, millions of small calls a second.
#include "work.h"
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

using nlohmann::json;

static json order(int number) {
    json lines = json::array();
    for (int i = 0; i < 12; i++) lines.push_back({{"article", number * 31 % 997 + i}, {"price", (number + i) * 0.25}, {"name", "article " + std::to_string(i)}});
    return {{"number", number}, {"customer", {{"name", "Jane"}, {"city", "Ulm"}}}, {"lines", lines}, {"paid", number % 3 == 0}};
}

int main(int argc, char **argv) {
    std::uint64_t sum = 0;
    for (int number = rounds(argc, argv, 9000); number > 0; number--) {
        json parsed = json::parse(order(number).dump());
        double total = 0;
        for (auto &line : parsed["lines"]) {
            total += line["price"].get<double>();
            line.erase("name");
        }
        parsed["total"] = total;
        const std::string text = parsed.dump();
        sum = checksum(sum, text.data(), text.size());
    }
    std::printf("%016lx\n", static_cast<unsigned long>(sum));
    return 0;
}
