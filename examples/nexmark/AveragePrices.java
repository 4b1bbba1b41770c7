package example;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Query 6 of Nexmark: the mean selling price of a seller's last ten auctions, when one closes.
 *
 * <p>Written with the DataStream API, because Flink SQL has no OVER window on rows that change.
 */
final class AveragePrices {
    private static final int LAST = 10;

    private AveragePrices() {}

    /** Returns lines of seller and mean price. */
    static DataStream<String> of(DataStream<Event> events) {
        return events.filter(event -> event.person == null)
                // With the source, so that no bid overtakes its auction.
                .setParallelism(1)
                .setMaxParallelism(1)
                .keyBy(event -> event.bid == null ? event.auction.id : event.bid.auction, Types.LONG)
                .process(new Closing())
                .name("closing")
                .uid("closing")
                .keyBy(sale -> sale.f0, Types.LONG)
                .process(new Mean())
                .name("mean")
                .uid("mean");
    }

    /** Gives seller, auction and price of an auction that closes with a bid. */
    private static final class Closing
            extends KeyedProcessFunction<Long, Event, Tuple3<Long, Long, Long>> {
        /** Seller and time of closing. */
        private transient ValueState<Tuple2<Long, Long>> auction;

        /** Times and prices that came so far. */
        private transient ListState<Tuple2<Long, Long>> bids;

        @Override
        public void open(OpenContext context) {
            auction = getRuntimeContext().getState(new ValueStateDescriptor<>("auction", pair()));
            bids = getRuntimeContext().getListState(new ListStateDescriptor<>("bids", pair()));
        }

        @Override
        public void processElement(
                Event event, Context context, Collector<Tuple3<Long, Long, Long>> out)
                throws Exception {
            if (event.auction != null) {
                auction.update(Tuple2.of(event.auction.seller, event.auction.expires));
                context.timerService().registerEventTimeTimer(event.auction.expires);
            } else if (auction.value() != null) { // it is open: auctions come before their bids
                bids.add(Tuple2.of(context.timestamp(), event.bid.price));
            }
        }

        @Override
        public void onTimer(
                long time, OnTimerContext context, Collector<Tuple3<Long, Long, Long>> out)
                throws Exception {
            long highest = 0;
            for (Tuple2<Long, Long> bid : bids.get()) {
                highest = bid.f0 <= time ? Math.max(highest, bid.f1) : highest;
            }
            if (highest > 0) {
                out.collect(Tuple3.of(auction.value().f0, context.getCurrentKey(), highest));
            }
            auction.clear();
            bids.clear();
        }
    }

    /** Gives the mean of the last prices in the order of closing, of equals in that of auctions. */
    private static final class Mean
            extends KeyedProcessFunction<Long, Tuple3<Long, Long, Long>, String> {
        /** Auctions and prices by time of closing that the watermark has not passed. */
        private transient ListState<Tuple3<Long, Long, Long>> waiting;

        private transient ListState<Long> last;

        @Override
        public void open(OpenContext context) {
            waiting =
                    getRuntimeContext()
                            .getListState(
                                    new ListStateDescriptor<>(
                                            "waiting",
                                            TypeInformation.of(
                                                    new TypeHint<Tuple3<Long, Long, Long>>() {})));
            last = getRuntimeContext().getListState(new ListStateDescriptor<>("last", Types.LONG));
        }

        @Override
        public void processElement(
                Tuple3<Long, Long, Long> sale, Context context, Collector<String> out)
                throws Exception {
            waiting.add(Tuple3.of(context.timestamp(), sale.f1, sale.f2));
            context.timerService().registerEventTimeTimer(context.timestamp());
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<String> out)
                throws Exception {
            List<Tuple3<Long, Long, Long>> due = new ArrayList<>();
            List<Tuple3<Long, Long, Long>> later = new ArrayList<>();
            for (Tuple3<Long, Long, Long> each : waiting.get()) {
                (each.f0 <= time ? due : later).add(each);
            }
            due.sort(
                    (one, other) ->
                            one.f0.equals(other.f0)
                                    ? one.f1.compareTo(other.f1)
                                    : one.f0.compareTo(other.f0));
            List<Long> prices = new ArrayList<>();
            last.get().forEach(prices::add);
            for (Tuple3<Long, Long, Long> each : due) {
                prices.add(each.f2);
                prices = new ArrayList<>(prices.subList(Math.max(0, prices.size() - LAST), prices.size()));
                long sum = prices.stream().mapToLong(Long::longValue).sum();
                out.collect("+I," + context.getCurrentKey() + "," + sum / prices.size());
            }
            waiting.update(later);
            last.update(prices);
        }
    }

    private static TypeInformation<Tuple2<Long, Long>> pair() {
        return TypeInformation.of(new TypeHint<Tuple2<Long, Long>>() {});
    }
}
