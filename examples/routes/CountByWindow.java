package example;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Counts the rides of each route within a window that slides with every tick of the clock, and
 * tells the count at the tick as long as there is one.
 *
 * <p>The clock is the stream's own: a tick is over when the watermark has passed it, so that the
 * counts are the same whenever and how often the job was restarted. The timers stand for the
 * component that beats time in the paper's query.
 */
final class CountByWindow extends KeyedProcessFunction<String, Ride, RouteCount> {
    private final long tickMs;
    private final long ticks;
    private final Service service;
    private transient MapState<Long, Long> counts; // by tick, those of the window alone

    /**
     * @param tickMs how far the window slides
     * @param ticks how many ticks the window is long
     */
    CountByWindow(long tickMs, long ticks, Service service) {
        if (tickMs < 1 || ticks < 1) {
            throw new IllegalArgumentException(
                    "Expected ticks of at least 1 ms and a window of at least 1 tick, got "
                            + tickMs
                            + " ms and "
                            + ticks);
        }
        this.tickMs = tickMs;
        this.ticks = ticks;
        this.service = service;
    }

    @Override
    public void open(OpenContext context) {
        counts =
                getRuntimeContext()
                        .getMapState(new MapStateDescriptor<>("counts", Types.LONG, Types.LONG));
    }

    @Override
    public void processElement(Ride ride, Context context, Collector<RouteCount> out)
            throws Exception {
        service.serve(ride.id);
        long tick = Math.floorDiv(context.timestamp(), tickMs);
        Long before = counts.get(tick);
        counts.put(tick, before == null ? 1 : before + 1);
        context.timerService().registerEventTimeTimer(last(tick));
    }

    @Override
    public void onTimer(long time, OnTimerContext context, Collector<RouteCount> out)
            throws Exception {
        long now = Math.floorDiv(time, tickMs);
        long sum = 0;
        for (long tick = now - ticks + 1; tick <= now; tick++) {
            Long counted = counts.get(tick);
            sum += counted == null ? 0 : counted;
        }
        if (sum > 0) {
            out.collect(new RouteCount(context.getCurrentKey(), sum));
        }
        counts.remove(now - ticks + 1); // it is outside of the next window
        if (!counts.isEmpty()) {
            context.timerService().registerEventTimeTimer(last(now + 1));
        }
    }

    /** Returns the last millisecond of a tick. */
    private long last(long tick) {
        return (tick + 1) * tickMs - 1;
    }
}
