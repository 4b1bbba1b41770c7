package example;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Reports, at each tick, the most frequent of the routes that came with it.
 *
 * <p>Twice in the job: over the routes of a part each, many parts to a replica, then over what
 * these report. What is among the first of all is among the first of its part, so the result is
 * exact. All counts of a tick come at once: that burst, and not the average load, makes it slow.
 */
final class Rank extends KeyedProcessFunction<Integer, RouteCount, RouteCount> {
    private final int most;
    private final Service service;
    private transient MapState<Long, List<RouteCount>> first; // by tick, in order

    /**
     * @param most how many are reported
     */
    Rank(int most, Service service) {
        this.most = most;
        this.service = service;
    }

    @Override
    public void open(OpenContext context) {
        first =
                getRuntimeContext()
                        .getMapState(
                                new MapStateDescriptor<>(
                                        "first",
                                        Types.LONG,
                                        Types.LIST(Types.POJO(RouteCount.class))));
    }

    @Override
    public void processElement(RouteCount counted, Context context, Collector<RouteCount> out)
            throws Exception {
        long tick = context.timestamp();
        service.serve(tick + counted.route.hashCode());
        List<RouteCount> before = first.get(tick);
        List<RouteCount> ranked = before == null ? new ArrayList<>() : new ArrayList<>(before);
        ranked.add(counted);
        ranked.sort(RouteCount::byRank);
        first.put(tick, new ArrayList<>(ranked.subList(0, Math.min(most, ranked.size()))));
        context.timerService().registerEventTimeTimer(tick);
    }

    @Override
    public void onTimer(long tick, OnTimerContext context, Collector<RouteCount> out)
            throws Exception {
        int rank = 0;
        for (RouteCount counted : first.get(tick)) {
            RouteCount told = new RouteCount(counted.route, counted.count);
            told.rank = ++rank;
            out.collect(told);
        }
        first.remove(tick);
    }
}
