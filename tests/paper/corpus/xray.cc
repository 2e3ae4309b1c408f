// A peer: XRay's sleds, patched while another thread runs them, and what a patched function costs with an empty handler.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <algorithm>
#include <thread>
#include <vector>
#include <xray/xray_interface.h>

#define ONE(n) __attribute__((noinline)) void f##n() { asm volatile("" ::: "memory"); }
#define TEN(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
#define HUNDRED(n) TEN(n##0) TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4) TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)
#define THOUSAND(n) HUNDRED(n##0) HUNDRED(n##1) HUNDRED(n##2) HUNDRED(n##3) HUNDRED(n##4) HUNDRED(n##5) HUNDRED(n##6) HUNDRED(n##7) HUNDRED(n##8) HUNDRED(n##9)
THOUSAND(1) THOUSAND(2) THOUSAND(3) THOUSAND(4) THOUSAND(5) THOUSAND(6) THOUSAND(7) THOUSAND(8) THOUSAND(9) THOUSAND(10)

__attribute__((noinline, xray_always_instrument)) void target() { asm volatile("" ::: "memory"); }
[[clang::xray_always_instrument]] void handle(int32_t, XRayEntryType);
[[clang::xray_never_instrument]] void handle(int32_t, XRayEntryType) {}

using Clock = std::chrono::steady_clock;

template <class F> [[clang::xray_never_instrument]] static double median_ns(int rounds, F act) {
    std::vector<double> took;
    for (int i = 0; i < rounds; i++) {
        const auto start = Clock::now();
        act();
        took.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
    }
    std::sort(took.begin(), took.end());
    return took[took.size() / 2];
}

[[clang::xray_never_instrument]] static double call() {
    return median_ns(40, [] [[clang::xray_never_instrument]] { for (int i = 0; i < 100000; i++) target(); }) / 100000;
}

[[clang::xray_never_instrument]] int main() {
    __xray_init();
    const auto sites = 2.0 * static_cast<double>(__xray_max_function_id());
    int32_t id = 1;
    while (id <= static_cast<int32_t>(__xray_max_function_id()) && 
           __xray_function_address(id) - reinterpret_cast<uintptr_t>(&target) > 32)
        id++;
    if (id > static_cast<int32_t>(__xray_max_function_id())) return std::fprintf(stderr, "xray: the target has no number\n"), 1;
    const double off = call();
    __xray_set_handler(handle);
    {
        std::atomic<bool> over{false};
        std::thread executer([&] [[clang::xray_never_instrument]] { while (!over.load(std::memory_order_relaxed)) target(); });
        std::vector<double> on_off[2];
        for (int i = 0; i < 400; i++)
            on_off[i % 2].push_back(median_ns(1, [&] [[clang::xray_never_instrument]] { i % 2 ? __xray_unpatch_function(id) : __xray_patch_function(id); }));
        for (auto &took : on_off) std::sort(took.begin(), took.end());
        // Of one function: its entry and its exit.
        std::printf("activate %.1f ns\ndeactivate %.1f ns\n", on_off[0][100] / 2, on_off[1][100] / 2);
        over = true;
        executer.join();
    }
    __xray_patch_function(id);
    std::printf("invoke %.2f ns\n", call() - off);
    __xray_unpatch_function(id);
    std::vector<double> bulk;
    for (int i = 0; i < 15; i++) {
        bulk.push_back(median_ns(1, [] [[clang::xray_never_instrument]] { __xray_patch(); }) / sites);
        __xray_unpatch();
    }
    std::sort(bulk.begin(), bulk.end());
    std::printf("bulk %.2f ns\n", bulk[7]);
    return 0;
}
