"""A peer: Frida attaches to a function of a running program, and detaches."""
import subprocess, sys, frida

SCRIPT = """
const target = Process.mainModule.enumerateSymbols().find(s => s.name === 'target').address;
const noop = new NativeCallback(() => {}, 'void', []);
const [on, off] = [[], []];
const clock = new NativeFunction(Module.getGlobalExportByName('clock_gettime'), 'int', ['int', 'pointer']);
const time = Memory.alloc(16);
const now = () => { clock(1, time); return time.readU64().toNumber() * 1e6 + time.add(8).readU64().toNumber() / 1e3; };
for (let i = 0; i < 40; i++) {
  let start = now();
  const listener = Interceptor.attach(target, { onEnter() {}, onLeave() {} });
  Interceptor.flush();
  on.push(now() - start);
  start = now();
  listener.detach();
  Interceptor.flush();
  off.push(now() - start);
}
const median = values => values.sort((a, b) => a - b)[values.length >> 1];
send([median(on), median(off)]);
"""

program = subprocess.Popen([sys.argv[1], "invoke", "100000000"], stdout=subprocess.DEVNULL)
try:
    session = frida.attach(program.pid)
    answers = []
    script = session.create_script(SCRIPT)
    script.on("message", lambda message, data: answers.append(message))
    script.load()
    session.detach()
    for message in answers:
        if message["type"] != "send":
            sys.exit(str(message))
        print(f"activate {message['payload'][0]:.2f} us\ndeactivate {message['payload'][1]:.2f} us")
finally:
    program.kill()
    program.wait()
