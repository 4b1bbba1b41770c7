package example;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * Replays a schedule open-loop: what is due is emitted, whether or not the job keeps up, and what
 * could not be emitted in time waits here, as records wait in a broker.
 *
 * <p>There is one split, which holds the position. More readers than one would idle.
 */
final class TraceSource implements Source<Trip, TraceSource.Split, Boolean> {
    private static final long serialVersionUID = 1;

    private final Schedule schedule;
    private final int zones;
    private final int payload;
    private final long seed;
    private final long startAt;
    private final String directory;

    /**
     * @param payload bytes in a record beside its own fields
     * @param startAt when the schedule begins, Unix ms, or 0: when the first reader does
     * @param directory where `source.json` goes, or null for nowhere
     */
    TraceSource(
            Schedule schedule, int zones, int payload, long seed, long startAt, String directory) {
        this.schedule = schedule;
        this.zones = zones;
        this.payload = payload;
        this.seed = seed;
        this.startAt = startAt;
        this.directory = directory;
    }

    @Override
    public Boundedness getBoundedness() {
        return schedule.isFinite() ? Boundedness.BOUNDED : Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<Trip, Split> createReader(SourceReaderContext context) {
        return new TraceReader(context.metricGroup(), schedule, zones, payload, seed, directory);
    }

    @Override
    public SplitEnumerator<Split, Boolean> createEnumerator(SplitEnumeratorContext<Split> context) {
        return new Enumerator(context, begin());
    }

    @Override
    public SplitEnumerator<Split, Boolean> restoreEnumerator(
            SplitEnumeratorContext<Split> context, Boolean assigned) {
        return new Enumerator(context, assigned ? List.of() : begin());
    }

    private List<Split> begin() {
        return List.of(new Split(startAt, new Schedule.Position(0, 0, 0)));
    }

    @Override
    public SimpleVersionedSerializer<Split> getSplitSerializer() {
        return new SplitSerializer();
    }

    @Override
    public SimpleVersionedSerializer<Boolean> getEnumeratorCheckpointSerializer() {
        return new AssignedSerializer();
    }

    /** The whole trace, and how far it has been replayed. */
    static final class Split implements SourceSplit {
        /** Unix ms; 0 until a reader has begun. */
        final long start;

        final Schedule.Position position;

        Split(long start, Schedule.Position position) {
            this.start = start;
            this.position = position;
        }

        @Override
        public String splitId() {
            return "trace";
        }
    }

    /**
     * Gives the split to the first reader. A checkpoint keeps only whether it has been given: a
     * split that no reader has is as it began, and a reader's checkpoint holds what became of it.
     */
    private static final class Enumerator implements SplitEnumerator<Split, Boolean> {
        private final SplitEnumeratorContext<Split> context;
        private final List<Split> unassigned;

        Enumerator(SplitEnumeratorContext<Split> context, List<Split> unassigned) {
            this.context = context;
            this.unassigned = new ArrayList<>(unassigned);
        }

        @Override
        public void addReader(int subtask) {
            unassigned.forEach(split -> context.assignSplit(split, subtask));
            unassigned.clear();
        }

        @Override
        public void addSplitsBack(List<Split> splits, int subtask) {
            // None, where a checkpoint of the reader holds it: called after every failure.
            unassigned.addAll(splits);
        }

        @Override
        public Boolean snapshotState(long checkpoint) {
            return unassigned.isEmpty();
        }

        @Override
        public void start() {} // readers announce themselves

        @Override
        public void handleSplitRequest(int subtask, String host) {} // readers never ask

        @Override
        public void close() {} // holds nothing
    }

    private static final class SplitSerializer implements SimpleVersionedSerializer<Split> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Split split) {
            return ByteBuffer.allocate(4 * Long.BYTES)
                    .putLong(split.start)
                    .putLong(split.position.slot)
                    .putLong(split.position.passed)
                    .putLong(split.position.id)
                    .array();
        }

        @Override
        public Split deserialize(int version, byte[] bytes) {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            long start = buffer.getLong();
            return new Split(
                    start,
                    new Schedule.Position(buffer.getLong(), buffer.getLong(), buffer.getLong()));
        }
    }

    private static final class AssignedSerializer implements SimpleVersionedSerializer<Boolean> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Boolean assigned) {
            return new byte[] {(byte) (assigned ? 1 : 0)};
        }

        @Override
        public Boolean deserialize(int version, byte[] bytes) {
            return bytes[0] == 1;
        }
    }
}
