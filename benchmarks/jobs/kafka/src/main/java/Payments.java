import java.time.Duration;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * A job that knows nothing of Weir: numbers from a topic, counted by key, exactly once into another.
 * Arguments: bootstrap servers, topic to read, topic to write, milliseconds of sleep per record.
 */
public class Payments {
    private static final long KEYS = 64;

    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        KafkaSource<String> source =
                KafkaSource.<String>builder()
                        .setBootstrapServers(args[0])
                        .setTopics(args[1])
                        .setGroupId(args[1])
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setValueOnlyDeserializer(new SimpleStringSchema())
                        .build();
        Properties producer = new Properties();
        // Kafka's brokers allow 15 minutes at most; Flink asks for an hour.
        producer.setProperty("transaction.timeout.ms", "600000");
        KafkaSink<String> sink =
                KafkaSink.<String>builder()
                        .setBootstrapServers(args[0])
                        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                        .setTransactionalIdPrefix(args[2])
                        .setKafkaProducerConfig(producer)
                        .setRecordSerializer(
                                KafkaRecordSerializationSchema.<String>builder()
                                        .setTopic(args[2])
                                        .setValueSerializationSchema(new SimpleStringSchema())
                                        .build())
                        .build();
        WatermarkStrategy<String> watermarks = WatermarkStrategy.forMonotonousTimestamps();
        env.fromSource(source, watermarks.withIdleness(Duration.ofSeconds(1)), "payments")
                .keyBy(payment -> Long.parseLong(payment) % KEYS)
                .process(new Count(Long.parseLong(args[3])))
                .name("count")
                .sinkTo(sink)
                .name("counts");
        env.execute("payments");
    }

    /** Gives out each payment with its number among those of its key. */
    private static final class Count extends KeyedProcessFunction<Long, String, String> {
        private final long sleep;

        private Count(long sleep) {
            this.sleep = sleep;
        }

        @Override
        public void processElement(String payment, Context context, Collector<String> out)
                throws Exception {
            ValueState<Long> seen =
                    getRuntimeContext().getState(new ValueStateDescriptor<>("n", Types.LONG));
            long n = (seen.value() == null ? 0 : seen.value()) + 1;
            seen.update(n);
            Thread.sleep(sleep);
            out.collect(payment + "," + n);
        }
    }
}
