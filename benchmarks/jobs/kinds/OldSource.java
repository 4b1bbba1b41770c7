import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;

/** A source of the old kind, which has one subtask and keeps its position in its state. */
final class OldSource implements SourceFunction<Long>, CheckpointedFunction {
    private static final long serialVersionUID = 1;
    private final double rate;
    private volatile boolean running = true;
    private long next;
    private transient ListState<Long> position;

    private OldSource(double rate) {
        this.rate = rate;
    }

    static DataStream<Long> add(StreamExecutionEnvironment env, double rate) {
        return env.addSource(new OldSource(rate), "old source", Types.LONG);
    }

    @Override
    public void run(SourceContext<Long> context) throws Exception {
        while (running) {
            synchronized (context.getCheckpointLock()) {
                context.collect(next++ * Kinds.SOURCES + 2);
            }
            Thread.sleep(Math.round(1000 / rate));
        }
    }

    @Override
    public void cancel() {
        running = false;
    }

    @Override
    public void initializeState(FunctionInitializationContext context) throws Exception {
        position =
                context.getOperatorStateStore()
                        .getListState(new ListStateDescriptor<>("position", Types.LONG));
        for (long each : position.get()) {
            next = each;
        }
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) throws Exception {
        position.clear();
        position.add(next);
    }
}
