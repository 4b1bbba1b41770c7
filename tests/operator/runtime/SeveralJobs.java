import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/** Submits jobs as its argument says, and prints what a detached submission returns. */
public final class SeveralJobs {
    private SeveralJobs() {}

    /** Run {@code one}, {@code awaited}, {@code two} or {@code tables}. */
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        if (arguments[0].equals("tables")) {
            StreamTableEnvironment tables = StreamTableEnvironment.create(env);
            tables.executeSql("CREATE TABLE a (k BIGINT) WITH ('connector' = 'datagen')");
            tables.executeSql("CREATE TABLE b (k BIGINT) WITH ('connector' = 'blackhole')");
            tables.executeSql("INSERT INTO b SELECT k FROM a");
            tables.executeSql("INSERT INTO b SELECT k + 1 FROM a");
            return;
        }
        env.fromSequence(0, 9).print();
        JobClient job = env.executeAsync("first");
        System.out.println(job.getJobID());
        if (arguments[0].equals("awaited")) {
            job.getJobExecutionResult().get();
        }
        if (arguments[0].equals("two")) {
            env.fromSequence(0, 9).print();
            System.out.println(env.execute("second").getJobID());
        }
    }
}
