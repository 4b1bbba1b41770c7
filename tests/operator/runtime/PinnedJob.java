import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.operators.SlotSharingGroup;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.ParameterTool;

/** The smallest job that the tests of the runtime need: a source, and a keyed operator `work`. */
public class PinnedJob {
    public static void main(String[] args) throws Exception {
        ParameterTool given = ParameterTool.fromArgs(args);
        if (given.has("fail")) {
            throw new IllegalStateException("told to fail");
        }
        int work = given.getInt("weir.parallelism.work", 1);
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(new Configuration());
        env.setMaxParallelism(16);
        GeneratorFunction<Long, Long> count = index -> index;
        env.fromSource(
                        new DataGeneratorSource<>(
                                count,
                                Long.MAX_VALUE,
                                RateLimiterStrategy.perSecond(50),
                                Types.LONG),
                        WatermarkStrategy.noWatermarks(),
                        "numbers")
                .setParallelism(1)
                .uid("numbers")
                .slotSharingGroup(pinned("numbers"))
                .keyBy(number -> number % 16)
                .map((MapFunction<Long, Long>) number -> number + 1)
                .returns(Types.LONG)
                .name("work")
                .uid("work")
                .setParallelism(work)
                .slotSharingGroup(pinned("work"))
                .sinkTo(new DiscardingSink<>())
                .name("discard")
                .uid("discard")
                .setParallelism(work)
                .slotSharingGroup(pinned("work"));
        env.execute("pinned");
    }

    private static SlotSharingGroup pinned(String operator) {
        return SlotSharingGroup.newBuilder(operator)
                .setCpuCores(1)
                .setTaskHeapMemoryMB(16)
                .setExternalResource("op-" + operator, 1.0)
                .build();
    }
}
