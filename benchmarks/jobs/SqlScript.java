import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.TableEnvironment;

/** Runs the statements of its arguments, all INSERTs in one job. Knows nothing of Weir. */
public class SqlScript {
    public static void main(String[] args) throws Exception {
        TableEnvironment env = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        StatementSet inserts = env.createStatementSet();
        for (String statement : args) {
            if (statement.trim().toUpperCase().startsWith("INSERT")) {
                inserts.addInsertSql(statement);
            } else {
                env.executeSql(statement);
            }
        }
        inserts.execute();
    }
}
