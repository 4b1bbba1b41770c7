package example;

import java.util.SplittableRandom;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The keyed operator with state that weighs something: each of the first records leaves 64 values
 * of 1 KiB under its key, which no compression shrinks. Later records only number themselves, so
 * that the state's size is known and stays.
 */
final class Hoard extends KeyedProcessFunction<Integer, Trip, Trip> {
    private static final long serialVersionUID = 1;
    private static final int VALUES = 64;
    private static final int VALUE_BYTES = 1024;

    private final long records;
    private transient ValueState<Long> count;
    private transient MapState<Long, byte[]> kept;

    /**
     * @param records how many records leave something, each 64 KiB
     */
    Hoard(long records) {
        this.records = records;
    }

    @Override
    public void open(OpenContext context) {
        count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        kept =
                getRuntimeContext()
                        .getMapState(
                                new MapStateDescriptor<>(
                                        "kept",
                                        Types.LONG,
                                        PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
    }

    @Override
    public void processElement(Trip trip, Context context, Collector<Trip> out) throws Exception {
        if (trip.id < records) {
            SplittableRandom random = new SplittableRandom(trip.id);
            for (long value = 0; value < VALUES; value++) {
                byte[] bytes = new byte[VALUE_BYTES];
                random.nextBytes(bytes);
                kept.put(trip.id * VALUES + value, bytes);
            }
        }
        Long before = count.value();
        trip.number = before == null ? 1 : before + 1;
        count.update(trip.number);
        out.collect(trip);
    }
}
