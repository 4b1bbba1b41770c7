package example;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Commits the records 0 to 9,999 into the folder that it is given, and fails once on the way: after
 * a checkpoint, with records behind that checkpoint written. Prints how often a record was mapped
 * again.
 */
public final class CommitJob {
    static final long RECORDS = 10_000;
    static final AtomicLong MAPPED = new AtomicLong();
    static final AtomicInteger CHECKPOINTS = new AtomicInteger();

    private CommitJob() {}

    public static void main(String[] args) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("execution.checkpointing.interval", "100 ms");
        configuration.setString("restart-strategy.type", "fixed-delay");
        configuration.setString("restart-strategy.fixed-delay.attempts", "1");
        configuration.setString("restart-strategy.fixed-delay.delay", "0 ms");
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(1, configuration);
        env.fromSequence(0, RECORDS - 1)
                .map(new FailOnce())
                .returns(Types.POJO(Trip.class))
                .sinkTo(Committed.sink(args[0]));
        env.execute("commit");
        System.out.println(MAPPED.get() - RECORDS);
    }

    private static final class FailOnce extends RichMapFunction<Long, Trip>
            implements CheckpointListener {
        private transient long sinceCheckpoint;

        @Override
        public Trip map(Long id) throws InterruptedException {
            MAPPED.incrementAndGet();
            boolean first = getRuntimeContext().getTaskInfo().getAttemptNumber() == 0;
            if (first && CHECKPOINTS.get() > 0 && ++sinceCheckpoint == 20) {
                throw new IllegalStateException("as it was asked to");
            }
            if (first) {
                Thread.sleep(1); // a checkpoint comes before the last record
            }
            Trip trip = new Trip();
            trip.id = id;
            return trip;
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            CHECKPOINTS.incrementAndGet();
            sinceCheckpoint = 0;
        }
    }
}
