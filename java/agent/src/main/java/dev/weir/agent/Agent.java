package dev.weir.agent;

import dev.weir.agent.hooks.BufferHook;
import dev.weir.agent.hooks.CallHook;
import dev.weir.agent.hooks.CallMarkerHook;
import dev.weir.agent.hooks.Hook;
import dev.weir.agent.hooks.JobGraphHook;
import dev.weir.agent.hooks.KeyHook;
import dev.weir.agent.hooks.MarkerHook;
import dev.weir.agent.hooks.RecordHook;
import dev.weir.agent.hooks.SourcePollHook;
import dev.weir.agent.hooks.SourceRecordHook;
import dev.weir.agent.hooks.TaskStartHook;
import dev.weir.agent.hooks.TimerHook;
import dev.weir.agent.hooks.WatermarkHook;
import java.lang.instrument.Instrumentation;
import java.util.List;

/**
 * {@code -javaagent:weir-agent.jar} in the JVMs of a Flink cluster: jobs that know nothing of Weir
 * are scaled operator by operator, and the times and keys of their records measured.
 *
 * <p>In the JobManager, {@link Rewriter} gives each future vertex slots and a parallelism of its own.
 * In TaskManagers, {@link Meter} times records, and {@link KeyCounts} counts their keys. All touch only jobs that are submitted with {@code
 * weir.pin: true}. Whatever fails here is noted in {@link StepBack}, and Flink runs on as it is.
 */
public final class Agent {
    private Agent() {}

    /** Begin to watch for the classes of Flink that are to be changed. */
    public static void premain(String options, Instrumentation instrumentation) {
        try {
            instrumentation.addTransformer(new Transformer(hooks()));
        } catch (Throwable failure) {
            StepBack.because("start", failure);
        }
    }

    static List<Hook> hooks() {
        return List.of(
                new JobGraphHook(),
                new TaskStartHook(),
                new TimerHook(),
                new RecordHook(),
                new WatermarkHook(),
                new MarkerHook(),
                new CallHook(),
                new CallMarkerHook(),
                new SourcePollHook(),
                new SourceRecordHook(),
                new BufferHook(),
                new KeyHook());
    }
}
