package example;

import dev.weir.Weir;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.ParameterTool;

/**
 * Counts numbers per key and second of event time in SQL: {@code --records N --pause-ms MS --out
 * DIRECTORY --pinned true}. A number is as many times ten ms, its key is its last digit. Each line
 * that is committed is the end of a window, a key and its count.
 */
public final class SqlWindows {
    private SqlWindows() {}

    public static void main(String[] args) throws Exception {
        ParameterTool given = ParameterTool.fromArgs(args);
        long pause = given.getLong("pause-ms");
        boolean pinned = given.getBoolean("pinned");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        SingleOutputStreamOperator<Long> source =
                env.fromSequence(0, given.getLong("records") - 1);
        SingleOutputStreamOperator<Long> dated =
                source.assignTimestampsAndWatermarks(
                        WatermarkStrategy.<Long>forMonotonousTimestamps()
                                .withTimestampAssigner((number, time) -> number * 10));
        SingleOutputStreamOperator<Long> paced =
                dated.map(
                                number -> {
                                    Thread.sleep(pause);
                                    return number;
                                })
                        .returns(Types.LONG);
        if (pinned) {
            Weir.pin(source, "source");
            Weir.pin(dated, "source");
            Weir.pin(paced, "source");
        }
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.createTemporaryView(
                "numbers",
                paced,
                Schema.newBuilder()
                        .column("f0", "BIGINT")
                        .columnByMetadata("due", "TIMESTAMP_LTZ(3)", "rowtime", true)
                        .watermark("due", "SOURCE_WATERMARK()")
                        .build());
        Table counts =
                tables.sqlQuery(
                        "SELECT UNIX_TIMESTAMP(CAST(window_end AS STRING)) AS ends, f0 % 10 AS k,"
                                + " COUNT(*) AS n FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(due),"
                                + " INTERVAL '1' SECOND)) GROUP BY window_start, window_end,"
                                + " f0 % 10");
        DataStream<Row> rows = tables.toDataStream(counts);
        if (pinned) {
            Weir.pinQuery(rows, "windows");
        }
        DataStreamSink<Row> lines =
                rows.rebalance()
                        .sinkTo(
                                Committed.sink(
                                        given.get("out"),
                                        row ->
                                                row.getField("ends")
                                                        + " "
                                                        + row.getField("k")
                                                        + " "
                                                        + row.getField("n")));
        if (pinned) {
            Weir.pin(lines, "sink");
        }
        env.execute("sql-windows");
    }
}
