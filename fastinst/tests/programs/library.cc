// Templates that the C++ library has as well: in position-independent code their hooks are told the library's functions.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Shape {
    virtual ~Shape() {}
    virtual double area() const = 0;
};

struct Square : Shape {
    double side;
    explicit Square(double side) : side(side) {}
    double area() const override { return side * side; }
};

static int risky(int i) {
    if (i % 7 == 0) throw std::runtime_error("seventh");
    return i;
}

static int guard(int i) {
    try {
        return risky(i);
    } catch (std::exception &) {
        return -1;
    }
}

__attribute__((noinline)) static int odd(int i);
__attribute__((noinline)) static int even(int i) { return i ? odd(i - 1) : 0; }
__attribute__((noinline)) static int odd(int i) { return i ? even(i - 1) : 1; }

int main() {
    std::vector<std::unique_ptr<Shape>> shapes;
    std::map<std::string, int> names;
    double sum = 0;
    for (int i = 0; i < 300; i++) {
        shapes.push_back(std::make_unique<Square>(i));
        names["name " + std::to_string(i % 17)]++;
        sum += guard(i) + even(5);
    }
    std::sort(shapes.begin(), shapes.end(), [](auto &a, auto &b) { return a->area() < b->area(); });
    for (auto &shape : shapes) sum += shape->area();
    std::printf("%.0f %zu\n", sum, names.size());
}
