package example;

import java.io.IOException;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Keeps a {@link Ledger} in checkpointed state and writes every arrival to a
 * file of its attempt. After a failure the ledger goes back with the job, the files do not: they
 * show what was emitted again. Records are passed on, to a sink that commits them or to nobody.
 */
final class LedgerSink extends ProcessFunction<Trip, Trip>
        implements CheckpointedFunction, CheckpointListener {
    private final String directory;
    private transient ListState<byte[]> state;
    private transient Ledger ledger;
    private transient Report report;
    private transient Arrivals arrivals;

    /**
     * @param directory where the files go, or null for no files
     */
    LedgerSink(String directory) {
        this.directory = directory;
    }

    @Override
    public void initializeState(FunctionInitializationContext context) throws Exception {
        state =
                context.getOperatorStateStore()
                        .getListState(
                                new ListStateDescriptor<>(
                                        "ledger",
                                        PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
        ledger = new Ledger();
        for (byte[] kept : state.get()) {
            ledger = Ledger.fromBytes(kept);
        }
    }

    @Override
    public void open(OpenContext context) throws IOException {
        report = new Report(directory, "ledger.json");
        MetricGroup group = getRuntimeContext().getMetricGroup();
        group.gauge("ledger_distinct", (Gauge<Long>) () -> ledger.distinct());
        group.gauge("ledger_doubled", (Gauge<Long>) () -> ledger.doubled());
        group.gauge("ledger_missing", (Gauge<Long>) () -> ledger.missing());
        group.gauge("ledger_sequence_errors", (Gauge<Long>) () -> ledger.sequenceErrors());
        arrivals = new Arrivals(directory);
    }

    @Override
    public void processElement(Trip trip, Context context, Collector<Trip> out) throws IOException {
        ledger.enter(trip.id, trip.zone, trip.number);
        arrivals.enter(trip.id, context.timestamp(), trip.zone, trip.number);
        out.collect(trip);
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) throws Exception {
        state.clear();
        state.add(ledger.toBytes());
        report.propose(context.getCheckpointId(), ledger.toJson(context.getCheckpointId()));
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) throws IOException {
        report.publish(checkpoint);
    }

    @Override
    public void close() throws IOException {
        if (arrivals != null) { // open failed
            arrivals.close();
        }
    }
}
