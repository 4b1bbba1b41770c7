package dev.weir;

import java.io.IOException;
import java.net.ConnectException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Set;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.table.catalog.Catalog;
import org.apache.flink.table.catalog.GenericInMemoryCatalog;
import org.apache.flink.table.catalog.exceptions.CatalogException;
import org.apache.flink.table.factories.CatalogFactory;

/**
 * Prints what becomes of SQL scripts, a line for each file: {@code job NAME} and how its barriers
 * are, or {@code refused} or {@code failed} with the sentence. With {@code split} in front, prints their
 * statements, and {@code end} behind each file.
 */
public final class ScriptProbe {
    public static void main(String[] arguments) throws IOException {
        if (arguments[0].equals("split")) {
            for (String file : Arrays.asList(arguments).subList(1, arguments.length)) {
                split(Files.readString(Path.of(file)));
            }
            return;
        }
        Submitted.install();
        for (String file : arguments) {
            System.out.println(run(file).replace(file, "q.sql"));
        }
    }

    private static void split(String script) {
        for (RunScript.Statement each : RunScript.Statement.split(script)) {
            System.out.println(each.line + " " + each.text.trim().replaceAll("\\s+", " "));
        }
        System.out.println("end");
    }

    private static String run(String file) throws IOException {
        try {
            RunScript.main(new String[] {file});
            return "nothing";
        } catch (Job submitted) {
            return "job " + submitted.getMessage();
        } catch (RunScript.Refusal refused) {
            return "refused " + refused.getMessage();
        } catch (RunScript.Failure failed) {
            return "failed " + failed.getMessage().replace(RunScript.FAILED, "");
        } catch (RuntimeException other) {
            return "other " + other;
        }
    }

    private static final class Job extends Error {
        Job(String name) {
            super(name);
        }
    }

    private static final class Submitted extends StreamExecutionEnvironment {
        Submitted(Configuration configuration) {
            super(joined(configuration));
        }

        /** With what Weir writes for the whole cluster. */
        private static Configuration joined(Configuration ofJob) {
            Configuration joined = new Configuration();
            joined.setString("execution.checkpointing.interval", "3 s");
            joined.setString("execution.checkpointing.unaligned.enabled", "true");
            joined.addAll(ofJob);
            return joined;
        }

        static void install() {
            initializeContextEnvironment(Submitted::new);
        }

        @Override
        public JobClient executeAsync(StreamGraph graph) throws Exception {
            if (graph.getJobName().equals("not accepted")) {
                throw new IOException("The JobManager is full");
            }
            boolean isUnaligned = graph.getCheckpointConfig().isUnalignedCheckpointsEnabled();
            throw new Job(graph.getJobName() + (isUnaligned ? " unaligned" : " aligned"));
        }
    }

    /** A catalog whose server does not answer. */
    public static final class DownFactory implements CatalogFactory {
        @Override
        public String factoryIdentifier() {
            return "down";
        }

        @Override
        public Catalog createCatalog(Context context) {
            return new GenericInMemoryCatalog(context.getName()) {
                @Override
                public void open() {
                    throw new CatalogException(
                            "Cannot open", new ConnectException("Connection refused"));
                }
            };
        }

        @Override
        public Set<ConfigOption<?>> requiredOptions() {
            return Set.of();
        }

        @Override
        public Set<ConfigOption<?>> optionalOptions() {
            return Set.of();
        }
    }
}
