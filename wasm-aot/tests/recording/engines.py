"""Runs replays that check themselves in Wasmtime: each has to pass all of its events.

Arguments: pairs of a module and how many events it has to pass, -1 if it ends by a trap."""
import sys

import wasmtime

config = wasmtime.Config()
for feature in ("wasm_exceptions", "wasm_memory64", "wasm_multi_memory", "wasm_tail_call", "wasm_function_references", "wasm_gc"):
    if hasattr(wasmtime.Config, feature):
        setattr(config, feature, True)
engine = wasmtime.Engine(config)
failed = 0
for path, events in zip(sys.argv[1::2], map(int, sys.argv[2::2])):
    store = wasmtime.Store(engine)
    instance = wasmtime.Instance(store, wasmtime.Module.from_file(engine, path), [])
    exports = instance.exports(store)
    trapped = False
    try:
        exports["_start"](store)
    except wasmtime.Trap:
        trapped = True
    event, wrong = exports["replay:event"].value(store), exports["replay:wrong"].value(store)
    if wrong != 0 or trapped != (events < 0) or (events >= 0 and event != events):
        print(f"{path}: event {event} of {events}, wrong {wrong}, trapped {trapped}")
        failed = 1
sys.exit(failed)
