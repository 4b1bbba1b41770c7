package dev.weir;

import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;

/**
 * Removes the empty folders that ended jobs leave where checkpoints are.
 *
 * <p>Flink makes three folders per job, deletes the checkpoints of a job that it stops, and leaves the
 * folders. A job that is rescaled every few minutes would fill its volume's table of inodes. Only
 * folders without content are removed, so no state can be lost; object stores have none.
 */
public final class RemoveEmptyFolders {

    private RemoveEmptyFolders() {}

    /**
     * Remove the folders.
     *
     * @param arguments the folder of all checkpoints, then the ids of jobs that have ended
     */
    public static void main(String[] arguments) throws IOException {
        for (int i = 1; i < arguments.length; i++) {
            Path job = new Path(arguments[0], arguments[i]);
            FileSystem storage = job.getFileSystem();
            if (removeIfEmpty(storage, new Path(job, "shared"))
                    & removeIfEmpty(storage, new Path(job, "taskowned"))) {
                removeIfEmpty(storage, job);
            }
        }
        throw new FindState.Answer(FindState.MARK + " begin\n" + FindState.MARK + " end\n");
    }

    /** Returns whether the folder is gone. */
    private static boolean removeIfEmpty(FileSystem storage, Path folder) throws IOException {
        FileStatus[] entries;
        try {
            entries = storage.listStatus(folder);
        } catch (FileNotFoundException neverMade) {
            return true;
        }
        if (entries == null) {
            return true;
        }
        return entries.length == 0 && storage.delete(folder, false);
    }
}
