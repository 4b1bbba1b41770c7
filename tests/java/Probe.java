package example;

import dev.weir.Weir;
import java.lang.management.ManagementFactory;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.api.common.operators.SlotSharingGroup;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.ParameterTool;

/** Lets the tests call the parts of the example job: one question per run, answers as lines. */
public final class Probe {
    private Probe() {}

    public static void main(String[] args) throws Exception {
        String[] rest = Arrays.copyOfRange(args, 1, args.length);
        switch (args[0]) {
            case "schedule":
                schedule(rest);
                break;
            case "trace":
                System.out.println(Arrays.toString(Trace.read(Path.of(rest[0]))));
                break;
            case "service":
                service(rest);
                break;
            case "work":
                work(rest);
                break;
            case "ledger":
                ledger(rest);
                break;
            case "speed":
                speed(rest);
                break;
            case "enumerator":
                enumerator(rest);
                break;
            case "pin":
                pin(rest);
                break;
            case "parallelism":
                System.out.println(Weir.parallelism(rest, "match", 3));
                break;
            default:
                throw new IllegalArgumentException(args[0]);
        }
    }

    /** KEY=VALUE... of the configuration: parallelism and slot of a pinned stream and its sink. */
    private static void pin(String[] args) {
        Environment.install(args);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        SingleOutputStreamOperator<Integer> stream = Weir.pin(env.fromData(1, 2), "match");
        DataStreamSink<Integer> sink = Weir.pin(stream.print(), "match");
        DataStream<Integer> query = Weir.pinQuery(env.fromData(1, 2), "match");
        for (Transformation<?> each :
                List.of(
                        stream.getTransformation(),
                        sink.getTransformation(),
                        query.getTransformation())) {
            SlotSharingGroup group = each.getSlotSharingGroup().get();
            System.out.printf(
                    "%d %s %s %s%n",
                    each.getParallelism(),
                    group.getName(),
                    group.getManagedMemory().map(MemorySize::toHumanReadableString).orElse("-"),
                    group.getExternalResources());
        }
    }

    /** What a program finds as its environment where Flink runs it with a configuration. */
    private static final class Environment extends StreamExecutionEnvironment {
        private Environment(Configuration configuration) {
            super(configuration);
        }

        static void install(String[] settings) {
            Configuration configuration = new Configuration();
            for (String each : settings) {
                String[] parts = each.split("=", 2);
                configuration.setString(parts[0], parts[1]);
            }
            initializeContextEnvironment(given -> new Environment(configuration));
        }
    }

    /** RATES SLOT_SECONDS SEED HOLD SKIP COUNT: ids and due times after skipping by position. */
    private static void schedule(String[] args) {
        double[] rates = Arrays.stream(args[0].split(",")).mapToDouble(Double::valueOf).toArray();
        double seconds = Double.parseDouble(args[1]);
        long seed = Long.parseLong(args[2]);
        Schedule schedule = new Schedule(rates, seconds, seed, Boolean.parseBoolean(args[3]));
        Schedule.Cursor cursor = schedule.begin();
        for (int i = 0; i < Integer.parseInt(args[4]); i++) {
            cursor.advance();
        }
        cursor = new Schedule(rates, seconds, seed, Boolean.parseBoolean(args[3]))
                .at(cursor.position());
        for (int i = 0; i < Integer.parseInt(args[5]) && cursor.due() != Schedule.NEVER; i++) {
            System.out.println(cursor.id() + " " + cursor.due());
            cursor.advance();
        }
    }

    /** MEAN SCV DRAWS: mean and scv of the draws. */
    private static void service(String[] args) {
        Service service =
                new Service(Double.parseDouble(args[0]), Double.parseDouble(args[1]), 7, Work.WAIT);
        int draws = Integer.parseInt(args[2]);
        double sum = 0;
        double squares = 0;
        for (int id = 0; id < draws; id++) {
            double seconds = service.seconds(id);
            sum += seconds;
            squares += seconds * seconds;
        }
        double mean = sum / draws;
        System.out.println(mean + " " + (squares / draws / mean / mean - 1));
    }

    /** RECORDS ARGUMENTS...: ms, and ms of CPU, that `match` takes to serve so many records. */
    private static void work(String[] args) throws Exception {
        ParameterTool settings = ParameterTool.fromArgs(Arrays.copyOfRange(args, 1, args.length));
        Service service = Arguments.service(settings, "match", 0, 0, 7);
        service.serve(-1); // loads the classes and reads the speed
        long began = System.nanoTime();
        long burned = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        for (int id = 0; id < Integer.parseInt(args[0]); id++) {
            service.serve(id);
        }
        burned = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - burned;
        System.out.println((System.nanoTime() - began) / 1e6 + " " + burned / 1e6);
    }

    /** Entries ID:ZONE:NUMBER, `save` for a round trip through bytes, FROM..TO for many. */
    private static void ledger(String[] args) {
        Ledger ledger = new Ledger();
        for (String entry : args) {
            if (entry.equals("save")) {
                ledger = Ledger.fromBytes(ledger.toBytes());
            } else if (entry.contains("..")) {
                String[] ends = entry.split("\\.\\.");
                for (long id = Long.parseLong(ends[0]); id < Long.parseLong(ends[1]); id++) {
                    ledger.enter(id, 0, id + 1);
                }
            } else {
                String[] parts = entry.split(":");
                ledger.enter(
                        Long.parseLong(parts[0]),
                        Integer.parseInt(parts[1]),
                        Long.parseLong(parts[2]));
            }
        }
        System.out.print(ledger.toJson(1));
        System.out.println(ledger.toBytes().length);
    }

    /** RESTORED GIVEN_BACK: assignments, when a reader comes, fails and comes again. */
    private static void enumerator(String[] args) throws Exception {
        TraceSource source = new TraceSource(null, 1, 0, 7, 0, null);
        List<TraceSource.Split> assigned = new ArrayList<>();
        // Of the context's many methods the enumerator may use this one alone.
        InvocationHandler assigns =
                (proxy, method, given) -> {
                    if (!method.getName().equals("assignSplit")) {
                        throw new UnsupportedOperationException(method.getName());
                    }
                    assigned.add((TraceSource.Split) given[0]);
                    return null;
                };
        @SuppressWarnings("unchecked")
        SplitEnumeratorContext<TraceSource.Split> context =
                (SplitEnumeratorContext<TraceSource.Split>)
                        Proxy.newProxyInstance(
                                Probe.class.getClassLoader(),
                                new Class<?>[] {SplitEnumeratorContext.class},
                                assigns);
        SplitEnumerator<TraceSource.Split, Boolean> enumerator =
                args[0].equals("fresh")
                        ? source.createEnumerator(context)
                        : source.restoreEnumerator(context, true);
        enumerator.addReader(0);
        boolean lost = args[1].equals("unchecked");
        enumerator.addSplitsBack(lost ? List.copyOf(assigned) : List.of(), 0);
        enumerator.addReader(0);
        System.out.println(assigned.size() + " " + enumerator.snapshotState(1));
    }

    /** FILE CONTENT...: the speed after each content; `-` removes the file. */
    private static void speed(String[] args) throws Exception {
        Path file = Path.of(args[0]);
        Weir.Speed speed = new Weir.Speed(file);
        for (int i = 1; i < args.length; i++) {
            if (args[i].equals("-")) {
                Files.deleteIfExists(file);
            } else {
                Files.writeString(file, args[i]);
            }
            speed.reread();
            System.out.println(speed.now());
        }
    }
}
