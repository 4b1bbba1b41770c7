package example;

import java.io.Closeable;
import java.io.IOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.UUID;

/** A file of one attempt of a sink, with every record that reached it and when. */
final class Arrivals implements Closeable {
    private final Writer file;

    /**
     * @param directory where `raw-*.csv` goes, or null for no file
     */
    Arrivals(String directory) throws IOException {
        if (directory == null) {
            file = null;
            return;
        }
        Files.createDirectories(Path.of(directory));
        file = Files.newBufferedWriter(Path.of(directory, "raw-" + UUID.randomUUID() + ".csv"));
        file.write("id,event_ms,arrival_ms,zone,number\n");
    }

    /** Writes a record that has just arrived; its key and number are as the job has them. */
    void enter(long id, long eventMillis, int key, long number) throws IOException {
        if (file == null) {
            return;
        }
        Instant now = Instant.now();
        file.write(
                String.format(
                        "%d,%d,%d.%03d,%d,%d%n",
                        id,
                        eventMillis,
                        now.toEpochMilli(),
                        now.getNano() / 1000 % 1000,
                        key,
                        number));
        file.flush(); // at once: a killed TaskManager must not take arrivals with it
    }

    @Override
    public void close() throws IOException {
        if (file != null) {
            file.close();
        }
    }
}
