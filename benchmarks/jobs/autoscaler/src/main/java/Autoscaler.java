import java.lang.reflect.Field;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.autoscaler.JobAutoScaler;
import org.apache.flink.autoscaler.JobAutoScalerContext;
import org.apache.flink.autoscaler.JobAutoScalerImpl;
import org.apache.flink.autoscaler.RestApiMetricsCollector;
import org.apache.flink.autoscaler.ScalingExecutor;
import org.apache.flink.autoscaler.ScalingMetricEvaluator;
import org.apache.flink.autoscaler.config.AutoScalerOptions;
import org.apache.flink.autoscaler.event.LoggingEventHandler;
import org.apache.flink.autoscaler.realizer.ScalingRealizer;
import org.apache.flink.autoscaler.state.InMemoryAutoScalerStateStore;
import org.apache.flink.autoscaler.tuning.ConfigChanges;
import org.apache.flink.client.program.rest.RestClusterClient;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.runtime.jobgraph.JobResourceRequirements;
import org.apache.flink.runtime.jobgraph.JobVertexID;
import org.apache.flink.runtime.jobgraph.JobVertexResourceRequirements;
import org.apache.flink.runtime.jobgraph.JobVertexResourceRequirements.Parallelism;
import org.apache.flink.runtime.rest.messages.EmptyRequestBody;
import org.apache.flink.runtime.rest.messages.JobMessageParameters;
import org.apache.flink.runtime.rest.messages.job.JobResourceRequirementsBody;
import org.apache.flink.runtime.rest.messages.job.JobResourceRequirementsHeaders;
import org.apache.flink.runtime.rest.messages.job.JobResourcesRequirementsUpdateHeaders;

/**
 * Runs Flink's autoscaler, as published, beside one job, and carries its decisions out over the
 * REST interface, as its standalone form does.
 *
 * <p>Arguments: host, port, job, how many times faster than usual time passes, and settings as
 * {@code key=value}; what follows {@code --configDir} names the process. Every duration among the autoscaler's options is divided by that factor, and
 * so is the time between two runs of its loop; what a setting names stays as given.
 */
public final class Autoscaler {
    private static final String NAME = "--configDir";
    private static final Duration LOOP = Duration.ofSeconds(10); // of the standalone form

    private Autoscaler() {}

    /** Runs until it is ended. */
    public static void main(String[] args) throws Exception {
        double faster = Double.parseDouble(args[3]);
        Configuration settings = compressed(faster);
        settings.set(RestOptions.ADDRESS, args[0]);
        settings.set(RestOptions.PORT, Integer.parseInt(args[1]));
        for (int i = 4; i < args.length && !args[i].equals(NAME); i++) {
            int split = args[i].indexOf('=');
            settings.setString(args[i].substring(0, split), args[i].substring(split + 1));
        }
        System.out.println("settings: " + settings.toMap());
        JobID job = JobID.fromHexString(args[2]);
        var events = new LoggingEventHandler<JobID, JobAutoScalerContext<JobID>>();
        var store = new InMemoryAutoScalerStateStore<JobID, JobAutoScalerContext<JobID>>();
        var autoscaler =
                new JobAutoScalerImpl<>(
                        new RestApiMetricsCollector<>(),
                        new ScalingMetricEvaluator(),
                        new ScalingExecutor<>(events, store),
                        events,
                        new RestRealizer(),
                        store);
        Executors.newSingleThreadScheduledExecutor()
                .scheduleWithFixedDelay(
                        () -> scale(autoscaler, job, settings),
                        0,
                        Math.round(LOOP.toMillis() / faster),
                        TimeUnit.MILLISECONDS);
    }

    /** Returns the defaults of all options that are durations, except of a request's time-out. */
    private static Configuration compressed(double faster) throws IllegalAccessException {
        Configuration settings = new Configuration();
        for (Field field : AutoScalerOptions.class.getFields()) {
            Object value = field.get(null);
            if (value instanceof ConfigOption && value != AutoScalerOptions.FLINK_CLIENT_TIMEOUT) {
                ConfigOption<?> option = (ConfigOption<?>) value;
                if (option.defaultValue() instanceof Duration) {
                    long millis = ((Duration) option.defaultValue()).toMillis();
                    settings.setString(option.key(), Math.round(millis / faster) + " ms");
                }
            }
        }
        return settings;
    }

    private static void scale(
            JobAutoScaler<JobID, JobAutoScalerContext<JobID>> autoscaler,
            JobID job,
            Configuration settings) {
        try (RestClusterClient<String> client = connect(settings)) {
            JobStatus status = client.getJobStatus(job).get(10, TimeUnit.SECONDS);
            autoscaler.scale(
                    new JobAutoScalerContext<>(
                            job,
                            job,
                            status,
                            settings,
                            new UnregisteredMetricsGroup(),
                            () -> connect(settings)));
        } catch (Throwable failed) { // a loop that throws is not run again
            failed.printStackTrace();
        }
    }

    private static RestClusterClient<String> connect(Configuration settings) throws Exception {
        return new RestClusterClient<>(settings, "cluster");
    }

    /** Asks the adaptive scheduler for the parallelism that the autoscaler wants. */
    private static final class RestRealizer
            implements ScalingRealizer<JobID, JobAutoScalerContext<JobID>> {
        @Override
        public void realizeParallelismOverrides(
                JobAutoScalerContext<JobID> context, Map<String, String> wanted) throws Exception {
            if (wanted.isEmpty() || context.getJobStatus() != JobStatus.RUNNING) {
                return;
            }
            JobMessageParameters parameters = new JobMessageParameters();
            parameters.jobPathParameter.resolve(context.getJobID());
            try (RestClusterClient<String> client = context.getRestClusterClient()) {
                Map<JobVertexID, JobVertexResourceRequirements> present =
                        client.sendRequest(
                                        new JobResourceRequirementsHeaders(),
                                        parameters,
                                        EmptyRequestBody.getInstance())
                                .get(10, TimeUnit.SECONDS)
                                .asJobResourceRequirements()
                                .orElseThrow()
                                .getJobVertexParallelisms();
                Map<JobVertexID, JobVertexResourceRequirements> next = new HashMap<>(present);
                wanted.forEach(
                        (vertex, parallelism) ->
                                next.put(
                                        JobVertexID.fromHexString(vertex),
                                        new JobVertexResourceRequirements(
                                                new Parallelism(1, Integer.parseInt(parallelism)))));
                if (!next.equals(present)) {
                    client.sendRequest(
                                    new JobResourcesRequirementsUpdateHeaders(),
                                    parameters,
                                    new JobResourceRequirementsBody(new JobResourceRequirements(next)))
                            .get(10, TimeUnit.SECONDS);
                    System.out.println("asked for " + next);
                }
            }
        }

        @Override
        public void realizeConfigOverrides(
                JobAutoScalerContext<JobID> context, ConfigChanges changes) {
            // Tuning of memory is off, as by default.
        }
    }
}
