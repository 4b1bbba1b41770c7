package dev.weir;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardWatchEventKinds;
import java.nio.file.WatchService;
import java.security.MessageDigest;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.plugin.PluginUtils;
import org.apache.flink.runtime.rpc.AddressResolution;
import org.apache.flink.runtime.rpc.RpcGateway;
import org.apache.flink.runtime.rpc.RpcService;
import org.apache.flink.runtime.rpc.RpcSystem;
import org.apache.flink.runtime.rpc.RpcSystemLoader;
import org.apache.flink.runtime.taskexecutor.TaskManagerRunner;

/**
 * Makes the JVM of a TaskManager wait for its operator: a warm replica.
 *
 * <p>An agent, so that everything else about the JVM is as for any TaskManager: the class path, which
 * an archive of classes depends on, the options, and the main class, which runs once this returns.
 * Before it waits, it starts and ends a TaskManager that no JobManager knows. What that loads stays:
 * classes, compiled code, and Flink's RPC system, which has a class loader of its own and costs most
 * of a start. If the warm-up fails, the JVM waits all the same, and is only less warm.
 *
 * <p>It waits for {@code config.yaml} in a folder, the one that {@code --configDir} names. Whoever
 * shares the disk writes it, {@code operator} before it. Where nobody does, as on Kubernetes, it
 * comes in a request to a port, which needs the token of the variable {@code WEIR_STANDBY_TOKEN};
 * without one, the JVM ends. The folder outlives the process, so a container that restarts is bound
 * as before.
 */
public final class Standby {

    private static final String CONFIGURATION = "config.yaml";
    private static final String OPERATOR = "operator";
    private static final String READY = "ready";
    private static final String TOKEN = "WEIR_STANDBY_TOKEN";
    private static final int MAX_CONFIGURATION = 1 << 20;

    /** What a task needs beside the TaskManager, in Flink 2; a name that is unknown is left out. */
    private static final String[] TASK_CLASSES = {
        "org.apache.flink.runtime.taskmanager.Task",
        "org.apache.flink.streaming.runtime.tasks.OneInputStreamTask",
        "org.apache.flink.streaming.runtime.tasks.TwoInputStreamTask",
        "org.apache.flink.streaming.runtime.tasks.SourceOperatorStreamTask",
        "org.apache.flink.streaming.runtime.tasks.SubtaskCheckpointCoordinatorImpl",
        "org.apache.flink.streaming.runtime.tasks.RegularOperatorChain",
        "org.apache.flink.streaming.runtime.io.StreamOneInputProcessor",
        "org.apache.flink.streaming.runtime.io.checkpointing.InputProcessorUtil",
        "org.apache.flink.streaming.runtime.partitioner.RebalancePartitioner",
        "org.apache.flink.streaming.runtime.partitioner.KeyGroupStreamPartitioner",
        "org.apache.flink.streaming.api.operators.StreamTaskStateInitializerImpl",
        "org.apache.flink.streaming.api.operators.SourceOperator",
        "org.apache.flink.streaming.api.operators.KeyedProcessOperator",
        "org.apache.flink.runtime.io.network.partition.consumer.SingleInputGateFactory",
        "org.apache.flink.runtime.io.network.partition.consumer.RemoteInputChannel",
        "org.apache.flink.runtime.io.network.partition.PipelinedResultPartition",
        "org.apache.flink.runtime.io.network.netty.PartitionRequestQueue",
        "org.apache.flink.runtime.io.network.netty.CreditBasedPartitionRequestClientHandler",
        "org.apache.flink.runtime.state.heap.HeapKeyedStateBackendBuilder",
        "org.apache.flink.runtime.state.hashmap.HashMapStateBackend",
        "org.apache.flink.runtime.state.filesystem.FsCheckpointStorageAccess",
        "org.apache.flink.runtime.execution.librarycache.BlobLibraryCacheManager",
        "org.apache.flink.runtime.checkpoint.channel.ChannelStateWriteRequestExecutorImpl",
    };

    private static volatile RpcSystem kept;

    private Standby() {}

    /**
     * Warm up, and return once the TaskManager is bound to an operator.
     *
     * @param unused the settings are the properties {@code weir.standby.*}: {@code configuration} and
     *     {@code temporary} name folders, {@code port} is only there where a request will come
     */
    public static void premain(String unused) throws Exception {
        Path folder = Files.createDirectories(Paths.get(System.getProperty("weir.standby.configuration")));
        Integer port = Integer.getInteger("weir.standby.port");
        String token = System.getenv(TOKEN);
        if (port != null && (token == null || token.isEmpty())) {
            throw new IllegalStateException("Expected a token in " + TOKEN + ", got none");
        }
        if (!Files.exists(folder.resolve(CONFIGURATION))) {
            try {
                warmUp(System.getProperty("weir.standby.temporary"));
            } catch (Exception | LinkageError failure) {
                System.err.println("weir standby: less warm, because the warm-up failed: " + failure);
            }
            if (port == null) {
                await(folder);
            } else {
                receive(folder, port, token);
            }
        }
        setVariable("WEIR_OPERATOR", Files.readString(folder.resolve(OPERATOR)).trim());
    }

    private static void warmUp(String temporary) throws Exception {
        ClassLoader loader = ClassLoader.getSystemClassLoader();
        Thread.currentThread().setContextClassLoader(loader);
        Configuration configuration = new Configuration();
        for (String[] setting :
                new String[][] {
                    {"io.tmp.dirs", temporary},
                    // Nobody listens there.
                    {"jobmanager.rpc.address", "127.0.0.1"},
                    {"jobmanager.rpc.port", "1"},
                    {"taskmanager.host", "127.0.0.1"},
                    {"taskmanager.bind-host", "127.0.0.1"},
                    {"taskmanager.cpu.cores", "1"},
                    {"taskmanager.memory.framework.heap.size", "16m"},
                    {"taskmanager.memory.framework.off-heap.size", "16m"},
                    {"taskmanager.memory.task.heap.size", "16m"},
                    {"taskmanager.memory.task.off-heap.size", "0m"},
                    {"taskmanager.memory.managed.size", "0m"},
                    {"taskmanager.memory.network.min", "8m"},
                    {"taskmanager.memory.network.max", "8m"},
                    {"taskmanager.memory.jvm-metaspace.size", "64m"},
                    {"taskmanager.memory.jvm-overhead.min", "16m"},
                    {"taskmanager.memory.jvm-overhead.max", "16m"},
                }) {
            configuration.setString(setting[0], setting[1]);
        }
        RpcSystem system = RpcSystem.load(configuration);
        try (RpcService service =
                system.remoteServiceBuilder(configuration, "127.0.0.1", "0")
                        .withBindAddress("127.0.0.1")
                        .createAndStart()) {
            String noCluster = "pekko.tcp://flink@127.0.0.1:1/user/rpc/none";
            service.connect(noCluster, RpcGateway.class).get(5, TimeUnit.SECONDS);
        } catch (ExecutionException | TimeoutException refused) {
            // As it must be: it has loaded what a connection needs.
        }
        kept = new Kept(system);
        TaskManagerRunner runner =
                new TaskManagerRunner(
                        configuration,
                        PluginUtils.createPluginManagerFromRootFolder(configuration),
                        TaskManagerRunner::createTaskExecutorService);
        try {
            runner.start();
        } finally {
            runner.closeAsync().get(60, TimeUnit.SECONDS);
        }
        for (String name : TASK_CLASSES) {
            try {
                Class.forName(name, true, loader);
            } catch (ClassNotFoundException | LinkageError unknown) {
                continue; // another version of Flink
            }
        }
    }

    private static void await(Path folder) throws IOException, InterruptedException {
        try (WatchService watch = folder.getFileSystem().newWatchService()) {
            folder.register(watch, StandardWatchEventKinds.ENTRY_CREATE);
            Files.writeString(folder.resolve(READY), "");
            while (!Files.exists(folder.resolve(CONFIGURATION))) {
                watch.take().reset();
            }
        }
    }

    private static void receive(Path folder, int port, String token)
            throws IOException, InterruptedException {
        byte[] expected = ("Bearer " + token).getBytes(StandardCharsets.UTF_8);
        Object bound = new Object();
        HttpServer server = HttpServer.create(new InetSocketAddress(port), 0);
        server.createContext(
                "/binding",
                exchange -> {
                    synchronized (bound) {
                        try {
                            exchange.sendResponseHeaders(bind(exchange, expected, folder), -1);
                        } finally {
                            bound.notifyAll(); // it may be bound although the answer was not sent
                            exchange.close();
                        }
                    }
                });
        server.start();
        synchronized (bound) {
            while (!Files.exists(folder.resolve(CONFIGURATION))) {
                bound.wait();
            }
        }
        server.stop(0);
    }

    private static int bind(HttpExchange exchange, byte[] expected, Path folder) throws IOException {
        String given = exchange.getRequestHeaders().getFirst("Authorization");
        byte[] token = given == null ? new byte[0] : given.getBytes(StandardCharsets.UTF_8);
        if (!MessageDigest.isEqual(token, expected)) {
            return 403;
        }
        String operator = exchange.getRequestHeaders().getFirst("Weir-Operator");
        byte[] content = exchange.getRequestBody().readNBytes(MAX_CONFIGURATION + 1);
        if (!"PUT".equals(exchange.getRequestMethod()) || operator == null || content.length == 0) {
            return 400;
        }
        if (content.length > MAX_CONFIGURATION) {
            return 413;
        }
        Files.writeString(folder.resolve(OPERATOR), operator);
        Path unfinished = Files.write(folder.resolve(CONFIGURATION + ".part"), content);
        Files.move(unfinished, folder.resolve(CONFIGURATION), StandardCopyOption.ATOMIC_MOVE);
        return 204;
    }

    /** Sets a variable of this process, for its own code and for the processes that it starts. */
    @SuppressWarnings("unchecked")
    private static void setVariable(String name, String value) throws ReflectiveOperationException {
        // The map that System.getenv returns is a view of the one that new processes get.
        Map<String, String> view = System.getenv();
        Field field = view.getClass().getDeclaredField("m");
        field.setAccessible(true);
        ((Map<String, String>) field.get(view)).put(name, value);
    }

    /** Gives the TaskManager the RPC system that the warm-up has loaded; Flink finds it as a service. */
    public static final class Loader implements RpcSystemLoader {

        @Override
        public int getLoadPriority() {
            return -1; // before Flink's own, which is 0
        }

        @Override
        public RpcSystem loadRpcSystem(Configuration configuration) {
            if (kept == null) {
                throw new IllegalStateException("There is none yet"); // Flink then takes its own
            }
            return kept;
        }
    }

    /** An RPC system that stays loaded when the TaskManager of the warm-up closes it. */
    private static final class Kept implements RpcSystem {

        private final RpcSystem system;
        private boolean warmedUp;

        Kept(RpcSystem system) {
            this.system = system;
        }

        @Override
        public RpcServiceBuilder localServiceBuilder(Configuration configuration) {
            return system.localServiceBuilder(configuration);
        }

        @Override
        public RpcServiceBuilder remoteServiceBuilder(
                Configuration configuration, String externalAddress, String externalPortRange) {
            return system.remoteServiceBuilder(configuration, externalAddress, externalPortRange);
        }

        @Override
        public String getRpcUrl(
                String host,
                int port,
                String endpoint,
                AddressResolution resolution,
                Configuration configuration)
                throws UnknownHostException {
            return system.getRpcUrl(host, port, endpoint, resolution, configuration);
        }

        @Override
        public InetSocketAddress getInetSocketAddressFromRpcUrl(String url) throws Exception {
            return system.getInetSocketAddressFromRpcUrl(url);
        }

        @Override
        public long getMaximumMessageSizeInBytes(Configuration configuration) {
            return system.getMaximumMessageSizeInBytes(configuration);
        }

        @Override
        public void close() {
            if (warmedUp) {
                system.close(); // which deletes the file that it was loaded from
            }
            warmedUp = true;
        }
    }
}
