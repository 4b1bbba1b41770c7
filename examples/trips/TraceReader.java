package example;

import java.io.IOException;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.metrics.groups.SourceReaderMetricGroup;

/**
 * Emits each record when it is due, or as soon after as the network takes it.
 *
 * <p>Reports the backlog as `pendingRecords`, as a Kafka source reports its lag (FLIP-33): records
 * due by now less records emitted.
 */
final class TraceReader implements SourceReader<Trip, TraceSource.Split> {
    private final Schedule schedule;
    private final int zones;
    private final byte[] payload;
    private final long zoneSeed;
    private final Report report;
    private final ScheduledExecutorService alarm;
    private CompletableFuture<Void> available = new CompletableFuture<>();

    /** Null until the split has come. */
    private Schedule.Cursor next;

    private long start; // Unix ms
    private volatile long emitted;
    private volatile Backlog backlog;

    TraceReader(
            SourceReaderMetricGroup metrics,
            Schedule schedule,
            int zones,
            int payload,
            long seed,
            String directory) {
        this.schedule = schedule;
        this.zones = zones;
        this.payload = new byte[payload];
        this.zoneSeed = Draws.bits(seed, "zone".hashCode());
        this.report = new Report(directory, "source.json");
        this.alarm =
                Executors.newSingleThreadScheduledExecutor(
                        task -> {
                            Thread thread = new Thread(task, "trace-alarm");
                            thread.setDaemon(true);
                            return thread;
                        });
        metrics.setPendingRecordsGauge(this::pending);
    }

    @Override
    public void start() {} // begins when the split comes

    @Override
    public void addSplits(List<TraceSource.Split> splits) {
        TraceSource.Split split = splits.get(0);
        start = split.start == 0 ? System.currentTimeMillis() : split.start;
        next = schedule.at(split.position);
        emitted = next.id();
        backlog = new Backlog(schedule.at(split.position), start);
        available.complete(null);
    }

    @Override
    public InputStatus pollNext(ReaderOutput<Trip> output) {
        if (next == null) {
            return InputStatus.NOTHING_AVAILABLE;
        }
        long due = next.due();
        if (due == Schedule.NEVER) {
            return schedule.isFinite() ? InputStatus.END_OF_INPUT : sleep();
        }
        long early = due - microsSince(start);
        if (early > 0) {
            return sleepFor(early);
        }
        Trip trip = new Trip();
        trip.id = next.id();
        trip.zone = (int) Long.remainderUnsigned(Draws.bits(zoneSeed, trip.id), zones);
        trip.payload = payload;
        output.collect(trip, start + Math.round(due / 1000.0)); // rounded: unbiased
        next.advance();
        emitted = next.id();
        return InputStatus.MORE_AVAILABLE;
    }

    private InputStatus sleep() {
        available = new CompletableFuture<>();
        return InputStatus.NOTHING_AVAILABLE;
    }

    private InputStatus sleepFor(long micros) {
        CompletableFuture<Void> woken = new CompletableFuture<>();
        available = woken;
        alarm.schedule(() -> woken.complete(null), micros, TimeUnit.MICROSECONDS);
        return InputStatus.NOTHING_AVAILABLE;
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        return available;
    }

    @Override
    public List<TraceSource.Split> snapshotState(long checkpoint) {
        if (next == null) {
            return List.of();
        }
        report.propose(
                checkpoint,
                String.format(
                        "{\"checkpoint\": %d, \"emitted\": %d, \"start\": %d}%n",
                        checkpoint, emitted, start));
        return List.of(new TraceSource.Split(start, next.position()));
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) throws IOException {
        report.publish(checkpoint);
    }

    @Override
    public void notifyNoMoreSplits() {} // there is one, and it never ends early

    @Override
    public void close() {
        alarm.shutdownNow();
    }

    private long pending() {
        Backlog known = backlog;
        return known == null ? 0 : Math.max(0, known.due() - emitted);
    }

    private static long microsSince(long startMillis) {
        Instant now = Instant.now();
        return (now.getEpochSecond() - startMillis / 1000) * 1_000_000
                + now.getNano() / 1000
                - startMillis % 1000 * 1000;
    }

    /** Counts what is due, with a cursor of its own: reporters ask from their own threads. */
    private static final class Backlog {
        private final Schedule.Cursor cursor;
        private final long start;

        Backlog(Schedule.Cursor cursor, long start) {
            this.cursor = cursor;
            this.start = start;
        }

        synchronized long due() {
            long now = microsSince(start);
            while (cursor.due() <= now) {
                cursor.advance();
            }
            return cursor.id();
        }
    }
}
