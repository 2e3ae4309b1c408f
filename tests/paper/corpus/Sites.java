import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.MutableCallSite;
import java.util.Arrays;

/** A peer: a call site of the Java machine, retargeted while another thread runs it. */
public class Sites {
    static long counted;
    static volatile boolean over;

    static void nothing() {}

    static void count() {
        counted++;
    }

    public static void main(String[] arguments) throws Throwable {
        MethodHandles.Lookup lookup = MethodHandles.lookup();
        MethodType type = MethodType.methodType(void.class);
        MethodHandle off = lookup.findStatic(Sites.class, "nothing", type), on = lookup.findStatic(Sites.class, "count", type);
        MutableCallSite site = new MutableCallSite(off);
        MethodHandle invoker = site.dynamicInvoker();
        Thread executer = new Thread(() -> {
            try {
                while (!over) for (int i = 0; i < 1000; i++) invoker.invokeExact();
            } catch (Throwable failure) {
                throw new AssertionError(failure);
            }
        });
        executer.start();
        Thread.sleep(500);
        double[][] took = new double[2][200];
        for (int i = 0; i < 400; i++) {
            long start = System.nanoTime();
            site.setTarget(i % 2 == 0 ? on : off);
            MutableCallSite.syncAll(new MutableCallSite[] {site});
            took[i % 2][i / 2] = System.nanoTime() - start;
            Thread.sleep(1);
        }
        over = true;
        executer.join();
        for (double[] each : took) Arrays.sort(each);
        System.out.printf("activate %.2f us%ndeactivate %.2f us%n", took[0][100] / 1e3, took[1][100] / 1e3);
    }
}
