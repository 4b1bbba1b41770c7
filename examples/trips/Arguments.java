package example;

import dev.weir.Weir;
import java.io.IOException;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.ParameterTool;

/** Makes the parts that the example jobs share of a job's arguments; {@link Trips} explains them. */
final class Arguments {
    private Arguments() {}

    /** Returns when records are due: {@code --trace}, {@code --scale}, {@code --at-end}. */
    static Schedule schedule(ParameterTool settings, long seed) throws IOException {
        double[] rates = Trace.read(Path.of(settings.getRequired("trace")));
        double scale = settings.getDouble("scale", 1.0);
        for (int i = 0; i < rates.length; i++) {
            rates[i] *= scale;
        }
        String end = settings.get("at-end", "hold");
        if (!end.equals("hold") && !end.equals("finish")) {
            throw new IllegalArgumentException(
                    "Expected hold or finish after --at-end, got " + end);
        }
        double slot = settings.getDouble("slot-seconds", 5);
        return new Schedule(rates, slot, seed, end.equals("hold"));
    }

    /**
     * Returns an operator's work: {@code --service.NAME-ms}, {@code --scv.NAME}, {@code --work.NAME}
     * or else {@code --work}.
     */
    static Service service(
            ParameterTool settings, String operator, double meanMs, double scv, long seed) {
        return new Service(
                settings.getDouble("service." + operator + "-ms", meanMs) / 1000,
                settings.getDouble("scv." + operator, scv),
                Draws.bits(seed, operator.hashCode()),
                Work.named(settings.get("work." + operator, settings.get("work", "wait"))));
    }

    /** Returns an environment with quick checkpoints and restarts: {@code --checkpoint-seconds}. */
    static StreamExecutionEnvironment environment(
            ParameterTool settings, Configuration configuration, String[] args) {
        // The default of 100 ms holds records back at every edge, up to that long at low rates.
        configuration.setString("execution.buffer-timeout.interval", "0 ms");
        configuration.setString(
                "execution.checkpointing.interval",
                settings.getInt("checkpoint-seconds", 2) + " s");
        configuration.setString("restart-strategy.type", "fixed-delay");
        configuration.setString("restart-strategy.fixed-delay.attempts", "1000");
        configuration.setString("restart-strategy.fixed-delay.delay", "200 ms");
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        int maxParallelism = Weir.maxParallelism(args, 0);
        if (maxParallelism > 0) {
            env.setMaxParallelism(maxParallelism);
        }
        return env;
    }

    /** Refuses arguments that nobody has asked for, Weir's own excepted. */
    static void refuseUnknown(ParameterTool settings, String explainedIn) {
        for (String name : settings.getUnrequestedParameters()) {
            if (!name.startsWith("weir.")) {
                throw new IllegalArgumentException(
                        "Unknown argument --" + name + "; " + explainedIn + " lists those that there are");
            }
        }
    }
}
