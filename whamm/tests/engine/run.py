"""Runs every module of a folder on Wasmtime, linked with the modules in its folder `lib`: prints what came of each, as JSON."""
import json
import pathlib
import sys
import tempfile

import wasmtime

FEATURES = ["multi_memory", "memory64", "tail_call", "simd", "reference_types", "function_references", "gc", "exceptions", "threads"]


def main(folder):
    config = wasmtime.Config()
    for feature in FEATURES:
        setattr(config, f"wasm_{feature}", True)
    engine = wasmtime.Engine(config)
    outcomes = {path.stem: run(engine, folder, path) for path in sorted(folder.glob("*.wasm"))}
    print(json.dumps(outcomes))


def run(engine, folder, path):
    store, linker = wasmtime.Store(engine), wasmtime.Linker(engine)
    wasi, log = wasmtime.WasiConfig(), []
    with tempfile.TemporaryDirectory() as place:
        console = pathlib.Path(place) / "console"
        wasi.stdout_file = str(console)
        store.set_wasi(wasi)
        linker.define_wasi()
        linker.define_func("env", "log", wasmtime.FuncType([wasmtime.ValType.i32()], []), log.append)
        for library in sorted((folder / "lib").glob("*.wasm")):
            module = wasmtime.Module.from_file(engine, str(library))
            linker.define_instance(store, library.stem, linker.instantiate(store, module))
        instance = linker.instantiate(store, wasmtime.Module.from_file(engine, str(path)))
        exports = instance.exports(store)
        trapped = False
        try:
            entry = next(exports[name] for name in ["_start", "main"] if name in exports)
            entry(store)
        except wasmtime.ExitTrap:
            pass
        except wasmtime.Trap:
            trapped = True
        if trapped and not kept(store, exports) and "whamm:flush" in exports:
            exports["whamm:flush"](store)
        written = console.read_text() if console.exists() else ""
        return {"written": written, "kept": kept(store, exports), "trapped": trapped}


def kept(store, exports):
    if "whamm:report" not in exports:
        return ""
    at, size = exports["whamm:report"](store)
    return bytes(exports["whamm:memory"].read(store, at, at + size)).decode()


main(pathlib.Path(sys.argv[1]))
