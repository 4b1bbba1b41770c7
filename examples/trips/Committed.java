package example;

import java.io.File;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.BasePathBucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;

/**
 * Flink's transactional file sink, one record a line: what was written since a checkpoint becomes
 * visible, by a rename, when the next one is complete.
 *
 * <p>A file whose name begins with a dot or that is still in progress was never committed.
 */
final class Committed {
    private Committed() {}

    /** Returns a sink that writes the ids of trips. */
    static FileSink<Trip> sink(String directory) {
        return sink(directory, trip -> Long.toString(trip.id));
    }

    /** Returns a sink whose files is started again at every checkpoint. */
    static <T> FileSink<T> sink(String directory, Line<T> line) {
        return FileSink.<T>forRowFormat(
                        Path.fromLocalFile(new File(directory)),
                        (record, file) ->
                                file.write(
                                        (line.of(record) + "\n")
                                                .getBytes(StandardCharsets.US_ASCII)))
                .withBucketAssigner(new BasePathBucketAssigner<>())
                .withRollingPolicy(OnCheckpointRollingPolicy.build())
                .build();
    }

    /** How a record is written. */
    interface Line<T> extends Serializable {
        String of(T record);
    }
}
