package example;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** A job that nobody wrote for Weir: no slot sharing groups, no arguments, no helper. */
public final class Foreign {
    private Foreign() {}

    /** Builds the job and submits it. */
    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        DataGeneratorSource<Long> numbers =
                new DataGeneratorSource<>(
                        number -> number,
                        Long.MAX_VALUE,
                        RateLimiterStrategy.perSecond(20),
                        Types.LONG);
        env.fromSource(numbers, WatermarkStrategy.noWatermarks(), "numbers")
                .uid("numbers")
                .map(number -> number * number)
                .name("square")
                .uid("square")
                .sinkTo(new DiscardingSink<>())
                .name("nowhere")
                .uid("nowhere");
        env.execute("foreign");
    }
}
