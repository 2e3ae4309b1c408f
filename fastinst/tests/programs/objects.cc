// C++: templates, virtual functions, exceptions through probed frames, constructors of globals.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Shape {
    virtual ~Shape() {}
    virtual int area(int x) = 0;
};

struct Square : Shape {
    int area(int x) override {
        if (x % 100 == 7)
            throw std::runtime_error("odd");
        return x * x;
    }
};

struct Global {
    std::vector<int> numbers;
    Global() {
        for (int i = 0; i < 1000; i++)
            numbers.push_back(i * 7919 % 1000);
    }
} global;

int deep(Shape &shape, int depth, int x) {
    return depth == 0 ? shape.area(x) : deep(shape, depth - 1, x) + 1;
}

int main() {
    std::unique_ptr<Shape> shape(new Square);
    std::map<std::string, long> sums;
    long caught = 0;
    for (int i = 0; i < 20000; i++) {
        try {
            sums["key " + std::to_string(i % 50)] += deep(*shape, 5, i);
        } catch (std::exception &) {
            caught++;
        }
    }
    std::sort(global.numbers.begin(), global.numbers.end(), [](int a, int b) { return a > b; });
    std::cout << caught << ' ' << sums["key 3"] << ' ' << global.numbers[10] << '\n';
}
