package example;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** The keyed operator: numbers the records of each zone, in state that must outlive a rescale. */
final class Aggregate extends KeyedProcessFunction<Integer, Trip, Trip> {
    private final Service service;
    private transient ValueState<Long> count;

    Aggregate(Service service) {
        this.service = service;
    }

    @Override
    public void open(OpenContext context) {
        count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
    }

    @Override
    public void processElement(Trip trip, Context context, Collector<Trip> out) throws Exception {
        service.serve(trip.id);
        Long before = count.value();
        trip.number = before == null ? 1 : before + 1;
        count.update(trip.number);
        out.collect(trip);
    }
}
