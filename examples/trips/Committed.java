package example;

import java.io.File;
import java.nio.charset.StandardCharsets;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.BasePathBucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;

/**
 * Flink's transactional file sink, one id a line: what was written since a checkpoint becomes
 * visible, by a rename, when the next one is complete.
 *
 * <p>A file whose name begins with a dot or that is still in progress was never committed.
 */
final class Committed {
    private Committed() {}

    /** Returns a sink whose files are begun anew at every checkpoint. */
    static FileSink<Trip> sink(String directory) {
        return FileSink.<Trip>forRowFormat(
                        Path.fromLocalFile(new File(directory)),
                        (trip, file) ->
                                file.write((trip.id + "\n").getBytes(StandardCharsets.US_ASCII)))
                .withBucketAssigner(new BasePathBucketAssigner<>())
                .withRollingPolicy(OnCheckpointRollingPolicy.build())
                .build();
    }
}
