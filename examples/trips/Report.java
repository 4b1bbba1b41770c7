package example;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.TreeMap;

/**
 * A file that says what held at the newest completed checkpoint; savepoints with which a job is
 * stopped count as such.
 */
final class Report {
    private final Path file;
    private final TreeMap<Long, String> open = new TreeMap<>();

    /**
     * @param directory where to write, or null for nowhere
     */
    Report(String directory, String name) {
        file = directory == null ? null : Path.of(directory, name);
    }

    /** Keeps what holds at a checkpoint that is being taken. */
    void propose(long checkpoint, String text) {
        open.put(checkpoint, text);
    }

    /** Replaces the file by what was proposed at a checkpoint. */
    void publish(long checkpoint) throws IOException {
        String text = open.get(checkpoint);
        open.headMap(checkpoint, true).clear();
        if (file != null && text != null) {
            Files.createDirectories(file.getParent());
            Path unfinished = file.resolveSibling(file.getFileName() + ".new");
            Files.writeString(unfinished, text);
            Files.move(unfinished, file, StandardCopyOption.ATOMIC_MOVE);
        }
    }
}
