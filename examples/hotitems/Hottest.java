package example;

import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** Counts the bids of an item in a window, and finds the item with most of them. */
final class Hottest {
    private Hottest() {}

    /** Counts bids one by one, so that a window's state is a number; serves once in each window. */
    static final class Counting implements AggregateFunction<Trip, Long, Long> {
        private final Service service;

        Counting(Service service) {
            this.service = service;
        }

        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Trip bid, Long count) {
            try {
                service.serve(bid.id);
            } catch (InterruptedException cancelled) {
                Thread.currentThread().interrupt(); // the task sees it; Flink allows no exception here
            }
            return count + 1;
        }

        @Override
        public Long getResult(Long count) {
            return count;
        }

        @Override
        public Long merge(Long one, Long other) {
            return one + other;
        }
    }

    /** Names the item: (item, its bids, bids of all items so far). */
    static final class Naming
            extends ProcessWindowFunction<Long, Tuple3<Integer, Long, Long>, Integer, TimeWindow> {
        @Override
        public void process(
                Integer item,
                Context context,
                Iterable<Long> counts,
                Collector<Tuple3<Integer, Long, Long>> out) {
            long count = counts.iterator().next();
            out.collect(Tuple3.of(item, count, count));
        }
    }

    /** Keeps the item with most bids, the first of equals, and the sum of all bids. */
    static final class Most implements ReduceFunction<Tuple3<Integer, Long, Long>> {
        @Override
        public Tuple3<Integer, Long, Long> reduce(
                Tuple3<Integer, Long, Long> one, Tuple3<Integer, Long, Long> other) {
            boolean first = one.f1 > other.f1 || (one.f1.equals(other.f1) && one.f0 < other.f0);
            Tuple3<Integer, Long, Long> hottest = first ? one : other;
            return Tuple3.of(hottest.f0, hottest.f1, one.f2 + other.f2);
        }
    }
}
