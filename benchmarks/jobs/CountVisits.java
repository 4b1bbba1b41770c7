package example;

import dev.weir.Weir;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel.MapMode;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;
import org.apache.flink.util.ParameterTool;

/**
 * A plain job that takes CPU as ordinary jobs do: it reads JSON, matches addresses, and keeps a
 * count per visitor and shop, as fast as it can. Nothing in it is Weir's unless it is pinned.
 *
 * <pre>
 * --counter FILE  holds how many records have come through, a long
 * --rate 0        records/s, or 0 for as many as it can take
 * --repeat 1      times that the JSON of each record is read
 * --pinned false  whether `parse` and `count` are operators of their own for Weir
 * </pre>
 */
public final class CountVisits {
    private static final int VISITORS = 10_000;

    private CountVisits() {}

    /** Builds the job and submits it. */
    public static void main(String[] args) throws Exception {
        ParameterTool settings = ParameterTool.fromArgs(args);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        SingleOutputStreamOperator<Long> numbers = numbers(env, settings.getDouble("rate", 0));
        SingleOutputStreamOperator<String> lines = numbers.map(CountVisits::write);
        SingleOutputStreamOperator<Tuple3<Long, String, Long>> visits = 
                lines.map(new Parse(settings.getInt("repeat", 1)));
        SingleOutputStreamOperator<Long> counts =
                visits.keyBy(visit -> visit.f0, Types.LONG).process(new Count());
        SingleOutputStreamOperator<Long> told =
                counts.map(new Tell(settings.getRequired("counter")));
        DataStreamSink<Long> sink = told.sinkTo(new DiscardingSink<>());
        if (settings.getBoolean("pinned", false)) {
            Weir.pin(numbers, "parse");
            Weir.pin(lines, "parse");
            Weir.pin(visits, "parse");
            Weir.pin(counts, "count");
            Weir.pin(told, "count");
            Weir.pin(sink, "count");
        }
        env.execute("count-visits");
    }

    private static SingleOutputStreamOperator<Long> numbers(
            StreamExecutionEnvironment env, double rate) {
        if (rate == 0) {
            return env.fromSequence(0, Long.MAX_VALUE - 1);
        }
        return env.fromSource(
                        new DataGeneratorSource<>(
                                index -> index,
                                Long.MAX_VALUE,
                                RateLimiterStrategy.perSecond(rate),
                                Types.LONG),
                        WatermarkStrategy.noWatermarks(),
                        "Sequence Source")
                .setParallelism(1);
    }

    private static String write(long number) {
        return "{\"visitor\":"
                + Math.floorMod(Draws.bits(number, 1), VISITORS)
                + ",\"address\":\"https://shop"
                + number % 97
                + ".example.org/items/"
                + number % 1009
                + "?from=letter\",\"milliseconds\":"
                + number % 30_000
                + "}";
    }

    /** Reads a line of JSON and takes the shop out of the address. */
    private static final class Parse implements MapFunction<String, Tuple3<Long, String, Long>> {
        private static final ObjectMapper JSON = new ObjectMapper();
        private static final Pattern ADDRESS =
                Pattern.compile("^https?://([^./]+)(?:\\.[^/]+)?/([a-z]+)/(\\d+)(?:\\?(.*))?$");

        private final int repeat;

        Parse(int repeat) {
            this.repeat = repeat;
        }

        @Override
        public Tuple3<Long, String, Long> map(String line) throws Exception {
            JsonNode visit = JSON.readTree(line);
            for (int read = 1; read < repeat; read++) {
                visit = JSON.readTree(line);
            }
            Matcher address = ADDRESS.matcher(visit.get("address").textValue());
            if (!address.matches()) {
                throw new IllegalArgumentException("Expected an address in " + line);
            }
            return Tuple3.of(
                    visit.get("visitor").longValue(),
                    address.group(1),
                    visit.get("milliseconds").longValue());
        }
    }

    /** Adds up how long a visitor stayed. */
    private static final class Count
            extends KeyedProcessFunction<Long, Tuple3<Long, String, Long>, Long> {
        private transient ValueState<Long> stayed;

        @Override
        public void open(OpenContext context) {
            stayed =
                    getRuntimeContext()
                            .getState(new ValueStateDescriptor<>("stayed", Types.LONG));
        }

        @Override
        public void processElement(
                Tuple3<Long, String, Long> visit, Context context, Collector<Long> out)
                throws Exception {
            Long before = stayed.value();
            long now = visit.f2 + visit.f1.length() + (before == null ? 0 : before);
            stayed.update(now);
            out.collect(now);
        }
    }

    /** Writes into a file in memory how many records have come. */
    private static final class Tell extends RichMapFunction<Long, Long> {
        private final String file;
        private transient MappedByteBuffer counter;
        private transient long seen;

        Tell(String file) {
            this.file = file;
        }

        @Override
        public void open(OpenContext context) throws IOException {
            try (RandomAccessFile opened = new RandomAccessFile(file, "rw")) {
                counter = opened.getChannel().map(MapMode.READ_WRITE, 0, Long.BYTES);
            }
        }

        @Override
        public Long map(Long value) {
            counter.putLong(0, ++seen);
            return value;
        }
    }
}
