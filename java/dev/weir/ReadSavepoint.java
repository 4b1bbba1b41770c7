package dev.weir;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import org.apache.flink.core.fs.Path;
import org.apache.flink.runtime.checkpoint.CheckpointProperties;
import org.apache.flink.runtime.checkpoint.Checkpoints;
import org.apache.flink.runtime.checkpoint.metadata.CheckpointMetadata;

/**
 * Says whether a savepoint was taken to stop its job, or while the job went on.
 *
 * <p>Of a job that has finished, a JobManager that was lost since does not know whether somebody
 * stopped it. Its savepoint does: Flink writes into it with which properties it was taken. Weir
 * uploads this program to the JobManager and asks for its plan. It builds no job: the answer is the
 * message of the exception that it throws: {@code weir-savepoint stop}, {@code running} or, where
 * the savepoint does not say, {@code unknown}.
 */
public final class ReadSavepoint {

    /** Marks the lines of the answer. */
    public static final String MARK = "weir-savepoint";

    private ReadSavepoint() {}

    /** Thrown to answer; Flink reports its message to whoever asked. */
    public static final class Answer extends RuntimeException {
        Answer(String message) {
            super(message, null, false, false);
        }
    }

    /**
     * Read the savepoint's metadata.
     *
     * @param arguments the folder of the savepoint
     */
    public static void main(String[] arguments) throws IOException {
        Path metadata = new Path(arguments[0], "_metadata");
        String found;
        try (DataInputStream in = new DataInputStream(
                new BufferedInputStream(metadata.getFileSystem().open(metadata)))) {
            CheckpointMetadata read = Checkpoints.loadCheckpointMetadata(
                    in, ReadSavepoint.class.getClassLoader(), arguments[0]);
            CheckpointProperties properties = read.getCheckpointProperties();
            found = properties == null
                    ? "unknown"
                    : properties.isSynchronous() ? "stop" : "running";
        }
        throw new Answer(MARK + " begin\n" + MARK + " " + found + "\n" + MARK + " end\n");
    }
}
