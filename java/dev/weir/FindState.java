package dev.weir;

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.apache.flink.runtime.checkpoint.Checkpoints;

/**
 * Lists the complete savepoints and checkpoints of one job, in any storage that Flink can read.
 *
 * <p>A JobManager that was lost took with it what it knew of its jobs: the savepoint that stopped a
 * job may be complete while nobody has its path. The storage still has it, but only Flink has the
 * plugins and credentials to look there. So Weir uploads this program to the JobManager and asks for
 * its plan. It builds no job: the answer is the message of the exception that it throws, one line per
 * snapshot: {@code weir-state NUMBER PATH}. Flink counts the checkpoints and savepoints of a job in one
 * row, so the largest number is the newest, whatever the clocks of the storage and of the nodes say.
 */
public final class FindState {

    /** Marks the lines of the answer. */
    public static final String MARK = "weir-state";

    private FindState() {}

    /** Thrown to answer; Flink reports its message to whoever asked. */
    public static final class Answer extends RuntimeException {
        Answer(String message) {
            super(message, null, false, false);
        }
    }

    /**
     * Look for snapshots.
     *
     * @param arguments the job id, the folder of all checkpoints, the folder of all savepoints
     */
    public static void main(String[] arguments) throws IOException {
        String job = arguments[0];
        StringBuilder answer = new StringBuilder(MARK + " begin\n");
        list(new Path(arguments[1], job), "chk-", answer);
        list(new Path(arguments[2]), "savepoint-" + job.substring(0, 6) + "-", answer);
        throw new Answer(answer + MARK + " end\n");
    }

    private static void list(Path folder, String prefix, StringBuilder answer) throws IOException {
        FileStatus[] entries;
        try {
            entries = folder.getFileSystem().listStatus(folder);
        } catch (FileNotFoundException nobodyWroteThere) {
            return;
        }
        if (entries == null) {
            return;
        }
        for (FileStatus entry : entries) {
            if (!entry.getPath().getName().startsWith(prefix)) {
                continue;
            }
            // Flink writes the metadata last: a snapshot without it is not complete.
            Path metadata = new Path(entry.getPath(), "_metadata");
            FileSystem storage = metadata.getFileSystem();
            if (!storage.exists(metadata)) {
                continue;
            }
            if (storage.getFileStatus(metadata).getLen() > 0) {
                answer.append(MARK).append(' ').append(number(storage, metadata)).append(' ')
                        .append(entry.getPath()).append('\n');
            }
        }
    }

    /**
     * Return the number of a snapshot, which Flink writes behind a magic number and a version
     * (Checkpoints.storeCheckpointMetadata).
     *
     * <p>What does not begin like that counts as the newest: Flink then refuses it and says why, where
     * older state would else stand in for it without a word.
     */
    private static long number(FileSystem storage, Path metadata) throws IOException {
        try (DataInputStream in = new DataInputStream(storage.open(metadata))) {
            if (in.readInt() != Checkpoints.HEADER_MAGIC_NUMBER) {
                return Long.MAX_VALUE;
            }
            in.readInt();
            return in.readLong();
        } catch (EOFException tooShort) {
            return Long.MAX_VALUE;
        }
    }
}
