// A call of "serve" that is left by an exception.
#define NOINLINE __attribute__((noinline))

volatile int sum;

extern "C" NOINLINE void leaf(int n) { sum = sum + n; }

extern "C" NOINLINE void parse(int n) {
  for (int at = 0; at < n; at++) leaf(at);
  if (n == 3) throw n;
  sum = sum + 1;
}

extern "C" NOINLINE void serve(int n) {
  parse(n);
  sum = sum - 1;
}

extern "C" NOINLINE void catches(int n) {
  try {
    serve(n);
  } catch (int) {
    sum = sum + 2;
  }
  parse(5);
}

int main() {
  catches(3);
  catches(2);
  catches(3);
  parse(10);
  return 0;
}
