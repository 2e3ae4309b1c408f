"""One module in the wasmtime package, in a process of its own.

    wasmtime_peer.py compile FIGURES MODULE COMPILED
    wasmtime_peer.py run FIGURES [--env NAME=VALUE]… [--beside NAME=COMPILED]… COMPILED ARGUMENTS…

What is beside a module are instances that it imports from, by name. What it took goes to the file FIGURES as JSON: nanoseconds and bytes, of this process from within, so that the interpreter's own start
does not count.
"""

import json
import sys
import time

from wasmtime import Engine, ExitTrap, Linker, Module, Store, WasiConfig


def resident(which):
    """Bytes that are resident now (VmRSS), or were at most since `forget` (VmHWM)."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(which))


def forget():
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")


def compile(path, compiled):
    with open(path, "rb") as file:
        code = file.read()
    engine = Engine()
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    encoded = Module(engine, code).serialize()
    figures = {"wall": time.perf_counter_ns() - wall, "cpu": time.process_time_ns() - cpu}
    with open(compiled, "wb") as file:
        file.write(encoded)
    return figures


def options(words, name):
    """The values of an option that stands in front of everything else, and what follows."""
    values = []
    while words and words[0] == name:
        values.append(words[1].split("=", 1))
        words = words[2:]
    return values, words


def run(*words):
    environment, words = options(words, "--env")
    beside, (compiled, *arguments) = options(words, "--beside")
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    engine = Engine()
    module = Module.deserialize_file(engine, compiled)
    linker = Linker(engine)
    linker.define_wasi()
    store = Store(engine)
    world = WasiConfig()
    world.argv = ["program", *arguments]
    world.env = environment
    world.inherit_stdout()
    world.inherit_stderr()
    store.set_wasi(world)
    for name, path in beside:
        linker.define_instance(store, name, linker.instantiate(store, Module.deserialize_file(engine, path)))
    start = linker.instantiate(store, module).exports(store)["_start"]
    figures = {"start": time.perf_counter_ns() - wall, "start_cpu": time.process_time_ns() - cpu}
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    try:
        start(store)
    except ExitTrap as end:
        if end.code != 0:
            raise
    figures |= {"cpu": time.process_time_ns() - cpu, "wall": time.perf_counter_ns() - wall}
    return figures


def main():
    action, path, *rest = sys.argv[1:]
    forget()
    before = resident("VmRSS")
    figures = {"compile": compile, "run": run}[action](*rest)
    figures["memory"] = resident("VmHWM") - before
    with open(path, "w") as file:
        json.dump(figures, file)


main()
