package dev.weir;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.jar.Attributes;
import java.util.jar.JarFile;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.DeploymentOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.memory.ManagedMemoryUseCase;
import org.apache.flink.runtime.state.StateBackendLoader;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamEdge;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.apache.flink.streaming.api.graph.StreamingJobGraphGenerator;

/**
 * Tells what a job needs of its slots' memory before it runs: which slot sharing groups use managed
 * memory, and how many streams flow between them. The same is told of the operators that Weir's
 * agent would make of it, where the JobManager has the agent, and which vertices these are.
 *
 * <p>Weir uploads this program to the JobManager and asks for its plan. It runs the {@code main} of
 * the job's own jar and submits nothing. Its first {@code execute} returns a job that does nothing,
 * because only what follows says whether the program submits another one: Flink runs one job of a
 * program that REST submits. The program ends at a second {@code execute}, and where it asks for
 * more of the job than its id. The answer is the message of the exception that is thrown then, in
 * lines that begin with {@code weir-graph}:
 *
 * <pre>
 * slot GROUP true|false
 * stream GROUP GROUP COUNT
 * agent absent | agent ready | agent failed REASON
 * agent-slot OPERATOR true|false
 * agent-stream OPERATOR OPERATOR COUNT
 * vertex OPERATOR ID PARALLELISM LIMIT NAME
 * uid ID UID
 * edge OPERATOR OPERATOR
 * pins-itself
 * not-restartable REASON
 * several-jobs
 * </pre>
 */
public final class ReadGraph {
    /** Marks the lines of the answer. */
    public static final String MARK = "weir-graph";

    private ReadGraph() {}

    /**
     * Read the graph of a job.
     *
     * @param arguments the id of the job's jar, its main class or {@code -}, its own arguments
     */
    public static void main(String[] arguments) throws Exception {
        Configuration cluster = Reading.configuration();
        File jar = new File(uploads(cluster), arguments[0]);
        String name = arguments[1].equals("-") ? mainClass(jar) : arguments[1];
        String[] own = Arrays.copyOfRange(arguments, 2, arguments.length);
        ClassLoader before = Thread.currentThread().getContextClassLoader();
        Reading reading;
        try (URLClassLoader loader = new URLClassLoader(new URL[] {jar.toURI().toURL()}, before)) {
            Thread.currentThread().setContextClassLoader(loader);
            reading = new Reading(cluster, loader);
            reading.install();
            run(Class.forName(name, true, loader), own, reading);
        } finally {
            Thread.currentThread().setContextClassLoader(before);
        }
        throw new FindState.Answer(MARK + " begin\n" + reading.answer + MARK + " end\n");
    }

    private static void run(Class<?> program, String[] arguments, Reading reading)
            throws Exception {
        try {
            program.getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException ended) {
            if (reading.answer.length() == 0) {
                throw ended.getCause() instanceof Exception ? (Exception) ended.getCause() : ended;
            }
        }
    }

    private static File uploads(Configuration cluster) {
        return new File(cluster.getString("web.upload.dir", ""), "flink-web-upload");
    }

    private static String mainClass(File jar) throws IOException {
        try (JarFile file = new JarFile(jar)) {
            Attributes names = file.getManifest().getMainAttributes();
            String own = names.getValue("program-class"); // as Flink does, before Java's own
            return own != null ? own : names.getValue("Main-Class");
        }
    }

    /** The end of the program that is read. */
    private static final class Read extends Error {
        Read() {
            super("The graph is read", null, false, false);
        }
    }

    /** What the program finds as its environment. */
    private static final class Reading extends StreamExecutionEnvironment {
        final StringBuilder answer;
        private final Configuration cluster;
        private final ClassLoader loader;

        Reading(Configuration cluster, ClassLoader loader) {
            this(cluster, cluster, loader, new StringBuilder());
        }

        private Reading(
                Configuration cluster,
                Configuration all,
                ClassLoader loader,
                StringBuilder answer) {
            super(all, loader);
            this.cluster = cluster;
            this.loader = loader;
            this.answer = answer;
        }

        static Configuration configuration() {
            return Configuration.fromMap(getExecutionEnvironment().getConfiguration().toMap());
        }

        void install() {
            initializeContextEnvironment(
                    given -> {
                        Configuration all = new Configuration(cluster);
                        all.addAll(given);
                        // As in a submission: execute does not wait for the job's end.
                        all.set(DeploymentOptions.ATTACHED, false);
                        return new Reading(cluster, all, loader, answer);
                    });
        }

        @Override
        public JobClient executeAsync(StreamGraph graph) {
            if (answer.length() > 0) {
                line("several-jobs");
                throw new Read();
            }
            describe(graph);
            return jobThatDoesNothing();
        }

        /** A proxy, because the interface has other methods in other versions of Flink. */
        private static JobClient jobThatDoesNothing() {
            JobID id = new JobID();
            return (JobClient)
                    Proxy.newProxyInstance(
                            JobClient.class.getClassLoader(),
                            new Class<?>[] {JobClient.class},
                            (job, method, arguments) -> {
                                switch (method.getName()) {
                                    case "getJobID":
                                        return id;
                                    case "toString":
                                        return "job " + id;
                                    case "hashCode":
                                        return id.hashCode();
                                    case "equals":
                                        return job == arguments[0];
                                    default:
                                        throw new Read();
                                }
                            });
        }

        private void describe(StreamGraph graph) {
            tell(graph, "", StreamNode::getSlotSharingGroup);
            try {
                ask(Class.forName("dev.weir.agent.Report"), graph);
            } catch (ClassNotFoundException absent) {
                line("agent absent");
            } catch (InvocationTargetException failed) {
                line("agent failed " + oneLine(failed.getCause()));
            } catch (ReflectiveOperationException | LinkageError failed) {
                line("agent failed " + oneLine(failed));
            }
        }

        /** The agent is another jar, which need not be there. */
        private void ask(Class<?> agent, StreamGraph graph) throws ReflectiveOperationException {
            Map<?, ?> operators =
                    (Map<?, ?>) agent.getMethod("operators", StreamGraph.class).invoke(null, graph);
            tell(graph, "agent-", node -> (String) operators.get(node.getId()));
            List<?> vertices =
                    (List<?>) agent.getMethod("vertices", StreamGraph.class).invoke(null, graph);
            vertices.forEach(vertex -> line("vertex " + vertex));
            describeVertices(agent, graph);
            // Last: it changes the graph, which nobody else is going to have.
            agent.getMethod("rehearse", StreamGraph.class).invoke(null, graph);
            List<?> failures = (List<?>) agent.getMethod("failures").invoke(null);
            line(failures.isEmpty() ? "agent ready" : "agent failed " + failures.get(0));
        }

        /** An agent that a JobManager got from an earlier Weir can pin, and cannot join vertices. */
        private void describeVertices(Class<?> agent, StreamGraph graph)
                throws ReflectiveOperationException {
            Method details;
            try {
                details = agent.getMethod("details", StreamGraph.class);
            } catch (NoSuchMethodException earlier) {
                line("joins-nothing");
                return;
            }
            ((List<?>) details.invoke(null, graph)).forEach(detail -> line(detail.toString()));
        }

        private static String oneLine(Throwable failure) {
            String message = failure.getMessage();
            return (message == null ? failure.toString() : message).replaceAll("\\s+", " ");
        }

        private void tell(StreamGraph graph, String prefix, Function<StreamNode, String> group) {
            boolean state = stateUsesManagedMemory(graph);
            TreeMap<String, Boolean> slots = new TreeMap<>();
            TreeMap<String, Integer> streams = new TreeMap<>();
            for (StreamNode node : graph.getStreamNodes()) {
                slots.merge(group.apply(node), uses(node, state), Boolean::logicalOr);
                for (StreamEdge edge : node.getOutEdges()) {
                    StreamNode target = graph.getStreamNode(edge.getTargetId());
                    if (!StreamingJobGraphGenerator.isChainable(edge, graph)) {
                        String between = group.apply(node) + " " + group.apply(target);
                        streams.merge(between, 1, Integer::sum);
                    }
                }
            }
            slots.forEach((name, uses) -> line(prefix + "slot " + name + " " + uses));
            streams.forEach((between, count) -> line(prefix + "stream " + between + " " + count));
        }

        private void line(String text) {
            answer.append(MARK).append(' ').append(text).append('\n');
        }

        private static boolean uses(StreamNode node, boolean state) {
            Set<ManagedMemoryUseCase> all =
                    new TreeSet<>(node.getManagedMemoryOperatorScopeUseCaseWeights().keySet());
            all.addAll(node.getManagedMemorySlotScopeUseCases());
            return state ? !all.isEmpty() : all.stream().anyMatch(ReadGraph::isNotState);
        }

        private boolean stateUsesManagedMemory(StreamGraph graph) {
            return StateBackendLoader.stateBackendFromApplicationOrConfigOrDefaultUseManagedMemory(
                    Configuration.fromMap(getConfiguration().toMap()),
                    Optional.ofNullable(graph.getStateBackend())
                            .map(backend -> backend.useManagedMemory()),
                    loader);
        }
    }

    private static boolean isNotState(ManagedMemoryUseCase each) {
        return each != ManagedMemoryUseCase.STATE_BACKEND;
    }
}
