package dev.weir;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.SqlParserException;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableException;
import org.apache.flink.table.api.ValidationException;
import org.apache.flink.table.api.internal.TableEnvironmentInternal;
import org.apache.flink.table.catalog.exceptions.CatalogException;
import org.apache.flink.table.operations.BeginStatementSetOperation;
import org.apache.flink.table.operations.CreateTableASOperation;
import org.apache.flink.table.operations.EndStatementSetOperation;
import org.apache.flink.table.operations.ExplainOperation;
import org.apache.flink.table.operations.LoadModuleOperation;
import org.apache.flink.table.operations.ModifyOperation;
import org.apache.flink.table.operations.Operation;
import org.apache.flink.table.operations.QueryOperation;
import org.apache.flink.table.operations.ReplaceTableAsOperation;
import org.apache.flink.table.operations.ShowOperation;
import org.apache.flink.table.operations.SinkModifyOperation;
import org.apache.flink.table.operations.StatementSetOperation;
import org.apache.flink.table.operations.UnloadModuleOperation;
import org.apache.flink.table.operations.UseOperation;
import org.apache.flink.table.operations.command.AddJarOperation;
import org.apache.flink.table.operations.command.ResetOperation;
import org.apache.flink.table.operations.command.SetOperation;
import org.apache.flink.table.operations.ddl.CreateOperation;

/**
 * Runs a SQL script as one streaming job: the entry class of a job with {@code flink.job.sql}.
 *
 * <p>Flink's own parser classifies each statement. A script is run again for every plan, restart
 * and upgrade, so only what can be repeated is allowed. What is not allowed ends the program with
 * a {@link Refusal} before a job exists, and what may succeed the next time, such as a catalog that
 * does not answer, with a {@link Failure}.
 */
public final class RunScript {
    /** Begins the message of a refusal. */
    public static final String MARK = "weir-script: ";
    private static final String BYTE_ORDER_MARK = "\uFEFF";

    /** Begins the message of a failure. */
    public static final String FAILED = "weir-script-failed: ";

    private static final String SAVEPOINT = "set spec.flink.job.initialSavepoint instead";

    /** What a script may not set besides the keys of Weir's, and what to do instead. */
    private static final Map<String, String> NOT_SET =
            Map.of(
                    "table.exec.resource.default-parallelism",
                    "remove it, because Weir sets the parallelism of every operator",
                    "execution.state-recovery.path",
                    SAVEPOINT);

    private static final Keys KEYS = Keys.read();
    private static final Pattern NO_FACTORY =
            Pattern.compile("Could not find any factory for identifier '([^']*)'");

    private final TableEnvironmentInternal env =
            (TableEnvironmentInternal)
                    TableEnvironment.create(EnvironmentSettings.inStreamingMode());
    private final List<ModifyOperation> inserts = new ArrayList<>();
    private final List<Integer> lines = new ArrayList<>(); // of the inserts
    private final Map<String, String> set = new HashMap<>(); // what stood there before
    private final Set<String> written = new HashSet<>(); // keys as the script names them
    private final String name;
    private int line;
    private int jobs;
    private boolean inSet;

    private RunScript(String name) {
        this.name = name;
    }

    /**
     * Run a script.
     *
     * @param arguments the path of the script; or its name, for messages, and its text
     */
    public static void main(String[] arguments) throws IOException {
        String name = arguments[0];
        String text = arguments.length > 1 ? arguments[1] : read(name, Path.of(name));
        new RunScript(name).run(text.startsWith(BYTE_ORDER_MARK) ? text.substring(1) : text);
    }

    private static String read(String name, Path file) throws IOException {
        try {
            return Files.readString(file);
        } catch (CharacterCodingException otherCoding) {
            throw new Refusal(
                    name + ": expected text in UTF-8, got another encoding; save it as UTF-8",
                    otherCoding);
        }
    }

    private void run(String text) {
        for (Statement statement : Statement.split(text)) {
            line = statement.line;
            try {
                take(statement);
            } catch (Refusal refused) {
                throw new Refusal(at(line) + refused.getMessage(), refused.getCause());
            } catch (Exception failed) {
                throw ended(line, failed);
            }
        }
        if (inSet) {
            throw new Refusal(name + ": expected END; after BEGIN STATEMENT SET;, got nothing");
        }
        if (inserts.isEmpty()) {
            throw new Refusal(
                    name
                            + ": expected an INSERT INTO, because Weir runs jobs, got none;"
                            + " write the rows of a query into a table");
        }
        try {
            env.executeInternal(inserts);
        } catch (RuntimeException failed) {
            // The submission of the job is Flink's, not the script's.
            throw isOfSubmission(failed) ? failed : ended(lineOfPlanning(), failed);
        }
    }

    private String at(int line) {
        return name + ", line " + line + ": ";
    }

    /** Returns with what the script ends, if a statement threw this. */
    private RuntimeException ended(int line, Exception failed) {
        String sentence = at(line) + innermost(failed);
        return isOfScript(failed) ? new Refusal(sentence, failed) : new Failure(sentence, failed);
    }

    /** Returns the line of the first INSERT INTO that cannot be planned alone, else of the first. */
    private int lineOfPlanning() {
        for (int each = 0; inserts.size() > 1 && each < inserts.size(); each++) {
            try {
                env.explainInternal(List.of(inserts.get(each)));
            } catch (RuntimeException failed) {
                return lines.get(each);
            }
        }
        return lines.get(0);
    }

    /**
     * Returns whether only a change of the script helps. Flink wraps into a ValidationException also
     * what a catalog or a connector throws that does not reach its server.
     */
    private static boolean isOfScript(Throwable failure) {
        boolean found = false;
        for (Throwable each = failure; each != null; each = each.getCause()) {
            boolean isAbsentFile =
                    each instanceof FileNotFoundException || each instanceof NoSuchFileException;
            if (each instanceof IOException && !isAbsentFile
                    || each instanceof SQLException
                    || each instanceof TimeoutException
                    || each instanceof CatalogException && each.getCause() != null) {
                return false;
            }
            found |=
                    isAbsentFile
                            || each instanceof SqlParserException
                            || each instanceof ValidationException
                            || each instanceof TableException
                            || each instanceof CatalogException;
        }
        return found;
    }

    /** Returns whether a job was being submitted, and not planned, when this was thrown. */
    private static boolean isOfSubmission(Throwable failure) {
        for (Throwable each = failure; each != null; each = each.getCause()) {
            for (StackTraceElement frame : each.getStackTrace()) {
                if (frame.getClassName().equals(RunScript.class.getName())) {
                    break;
                }
                if (frame.getMethodName().equals("executeAsync")) { // of Flink's Executor
                    return true;
                }
            }
        }
        return false;
    }

    private void take(Statement statement) {
        Operation operation = env.getParser().parse(statement.text).get(0);
        if (operation instanceof SetOperation) {
            set((SetOperation) operation);
        } else if (operation instanceof ResetOperation) {
            reset((ResetOperation) operation);
        } else if (operation instanceof BeginStatementSetOperation) {
            jobs++;
            inSet = true;
        } else if (operation instanceof EndStatementSetOperation) {
            inSet = false;
        } else if (operation instanceof StatementSetOperation) {
            jobs++;
            ((StatementSetOperation) operation).getOperations().forEach(this::insert);
        } else if (operation instanceof ModifyOperation) {
            jobs += inSet ? 0 : 1;
            insert((ModifyOperation) operation);
        } else if (operation instanceof QueryOperation) {
            throw new Refusal(
                    "expected statements of a job, got a query whose rows nothing takes;"
                            + " write them into a table with INSERT INTO");
        } else if (isRepeatable(operation)) {
            env.executeInternal(operation);
        } else if (!isSkipped(operation)) {
            throw new Refusal(
                    "expected SET, CREATE, USE or INSERT INTO, got "
                            + statement.beginning()
                            + "; remove it, because Weir runs the script again at each restart");
        }
        if (jobs > 1) {
            throw new Refusal(
                    "expected one job, got a second one; put all INSERT INTO between BEGIN"
                            + " STATEMENT SET; and END;");
        }
    }

    private void insert(ModifyOperation operation) {
        if (operation instanceof CreateTableASOperation
                || operation instanceof ReplaceTableAsOperation) {
            throw new Refusal(
                    "expected CREATE TABLE without AS, got a query in it; Weir runs the script"
                            + " again at each restart, so fill the table with INSERT INTO");
        }
        boolean changesRows =
                !(operation instanceof SinkModifyOperation)
                        || ((SinkModifyOperation) operation).isUpdate()
                        || ((SinkModifyOperation) operation).isDelete();
        if (changesRows) {
            throw new Refusal(
                    "expected INSERT INTO, got another change of a table; remove it, because Weir"
                            + " runs the script again at each restart");
        }
        inserts.add(operation);
        lines.add(line);
    }

    private void set(SetOperation operation) {
        if (operation.getKey().isEmpty() || operation.getValue().isEmpty()) {
            return; // lists what is set
        }
        String key = operation.getKey().get().trim();
        String value = operation.getValue().get().trim();
        String remedy = remedy(key);
        if (key.equals("execution.runtime-mode") && !value.equalsIgnoreCase("streaming")) {
            remedy = "remove it, because Weir runs streaming jobs";
        } else if (key.equals("table.exec.uid.generation") && value.equalsIgnoreCase("ALWAYS")) {
            remedy = "remove it, because operators would have another id at each restart";
        }
        if (remedy != null) {
            throw new Refusal("expected no SET of " + key + ", got " + value + "; " + remedy);
        }
        if (isComplete()) {
            return; // as in Flink's client, where the job runs by now
        }
        written.add(key);
        put(key, value);
        for (String own : KEYS.ownNames(key)) {
            if (!written.contains(own)) {
                // Under its own name, the key may stand in spec.flink.config or Weir's defaults,
                // which Flink would prefer.
                put(own, value);
            }
        }
    }

    /** Returns what to do instead of setting a key, null where a script may set it. */
    private static String remedy(String key) {
        for (String own : KEYS.ownNames(key)) {
            if (NOT_SET.containsKey(own)) {
                return NOT_SET.get(own);
            }
        }
        return NOT_SET.getOrDefault(key, KEYS.remedy(key));
    }

    private void put(String key, String value) {
        set.putIfAbsent(key, env.getConfig().getConfiguration().toMap().get(key));
        env.getConfig().set(key, value);
    }

    /** Take back what the script has set. */
    private void reset(ResetOperation operation) {
        if (isComplete()) {
            return;
        }
        List<String> keys =
                operation.getKey().map(String::trim).map(List::of).orElse(List.copyOf(set.keySet()));
        for (String key : keys) {
            written.remove(key);
            takeBack(key);
            for (String own : KEYS.ownNames(key)) {
                if (!written.contains(own)) {
                    takeBack(own);
                }
            }
        }
    }

    private void takeBack(String key) {
        if (!set.containsKey(key)) {
            return;
        }
        String before = set.remove(key);
        if (before == null) {
            env.getConfig().getConfiguration().removeKey(key);
        } else {
            env.getConfig().set(key, before);
        }
    }

    private boolean isComplete() {
        return jobs > 0 && !inSet;
    }

    private static boolean isRepeatable(Operation operation) {
        return operation instanceof CreateOperation
                || operation instanceof UseOperation
                || operation instanceof LoadModuleOperation
                || operation instanceof UnloadModuleOperation
                || operation instanceof AddJarOperation;
    }

    /** What prints something that nobody reads. */
    private static boolean isSkipped(Operation operation) {
        return operation instanceof ShowOperation
                || operation instanceof ExplainOperation
                || operation.getClass().getSimpleName().startsWith("Describe");
    }

    private static String innermost(Throwable failure) {
        Throwable cause = failure;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        String message = cause.getMessage();
        String sentence = (message == null ? cause.toString() : message).trim();
        Matcher absent = NO_FACTORY.matcher(sentence);
        return absent.lookingAt()
                ? "expected a connector, format, catalog or module '"
                        + absent.group(1)
                        + "', got none; put its jar into /opt/flink/usrlib, or its URL into"
                        + " pipeline.classpaths of spec.flink.config"
                : sentence.replaceAll("\\s+", " ");
    }

    /** The keys of Flink's configuration: those that Weir sets itself, and the names of all. */
    private static final class Keys {
        private final Map<String, String> remedies = new LinkedHashMap<>();
        private final Map<String, List<String>> ownNames = new HashMap<>();

        /** Read what {@code weir_operator.flink.jars} puts into the jar. */
        static Keys read() {
            Keys keys = new Keys();
            try (InputStream stream = RunScript.class.getResourceAsStream("/weir-keys.tsv")) {
                String text = new String(stream.readAllBytes(), StandardCharsets.UTF_8);
                for (String line : text.split("\n")) {
                    String[] cells = line.split("\t");
                    if (cells[0].equals("refused")) {
                        keys.remedies.put(cells[1], cells[2]);
                    } else {
                        keys.ownNames.put(cells[1], List.of(cells).subList(2, cells.length));
                    }
                }
            } catch (IOException broken) {
                throw new UncheckedIOException(broken);
            }
            return keys;
        }

        /** Returns the options that Flink also finds under a key. */
        List<String> ownNames(String key) {
            return ownNames.getOrDefault(key, List.of());
        }

        /** Returns what to do instead of setting a key, null where it is the user's. */
        String remedy(String key) {
            for (Map.Entry<String, String> each : remedies.entrySet()) {
                String owned = each.getKey();
                boolean isPrefix = owned.endsWith("*");
                if (isPrefix && key.startsWith(owned.substring(0, owned.length() - 1))
                        || owned.equals(key)) {
                    return each.getValue();
                }
            }
            return null;
        }
    }

    /** Says why a script cannot be a job. */
    public static final class Refusal extends RuntimeException {
        private final String sentence;

        Refusal(String sentence) {
            this(sentence, null);
        }

        Refusal(String sentence, Throwable cause) {
            super(MARK + sentence, cause);
            this.sentence = sentence;
        }

        @Override
        public String getMessage() {
            return sentence;
        }

        @Override
        public String toString() {
            return getClass().getName() + ": " + MARK + sentence;
        }
    }

    /** Says what went wrong that may go well the next time. */
    public static final class Failure extends RuntimeException {
        Failure(String sentence, Throwable cause) {
            super(FAILED + sentence, cause);
        }
    }

    /** A statement, behind so many empty lines that the parser counts lines as the script does. */
    static final class Statement {
        private static final Pattern BEGIN =
                Pattern.compile(
                        "\\s*(EXECUTE|EXPLAIN\\b.*|COMPILE\\b.*)\\s+STATEMENT\\s+SET\\s+BEGIN",
                        Pattern.CASE_INSENSITIVE | Pattern.DOTALL);

        final String text;
        final int line;

        private Statement(String text, int line) {
            this.text = "\n".repeat(line - 1) + text;
            this.line = line;
        }

        String beginning() {
            String[] words = text.trim().split("\\s+", 4);
            return String.join(" ", List.of(words).subList(0, Math.min(3, words.length)));
        }

        /**
         * Return the statements, without comments; hints are no comments. EXECUTE STATEMENT SET BEGIN
         * becomes BEGIN STATEMENT SET, so that each INSERT INTO has a line.
         */
        static List<Statement> split(String script) {
            List<Statement> found = new ArrayList<>();
            StringBuilder text = new StringBuilder();
            int block = -1; // where the last part of a statement with statements in it begins
            int at = 0;
            while (at < script.length()) {
                int end = endOfToken(script, at);
                String token = script.substring(at, end);
                Matcher begin = BEGIN.matcher(text);
                if (block < 0 && isEndOfWord(token) && begin.matches()) {
                    if (begin.group(1).equalsIgnoreCase("EXECUTE")) {
                        add(found, text, script, at, "BEGIN STATEMENT SET");
                        text.setLength(0);
                    } else {
                        block = text.length();
                    }
                }
                if (token.equals(";") && (block < 0 || isEnd(text.substring(block)))) {
                    add(found, text, script, at, null);
                    text.setLength(0);
                    block = -1;
                } else if (isComment(token)) {
                    text.append(' ').append(token.replaceAll("[^\\n]", ""));
                } else {
                    text.append(token);
                    block = block >= 0 && token.equals(";") ? text.length() : block;
                }
                at = end;
            }
            add(found, text, script, at, null);
            return found;
        }

        private static void add(
                List<Statement> found,
                StringBuilder text,
                String script,
                int end,
                String instead) {
            String whole = text.toString().stripTrailing();
            String stripped = whole.stripLeading();
            if (stripped.isEmpty()) {
                return;
            }
            int last = lines(script.substring(0, end));
            int after = lines(text.substring(whole.length()));
            int first = 1 + last - after - lines(stripped);
            found.add(new Statement(instead == null ? stripped : instead, first));
        }

        private static int lines(String text) {
            return (int) text.chars().filter(each -> each == '\n').count();
        }

        private static boolean isComment(String token) {
            return token.startsWith("--") || token.startsWith("/*") && !token.startsWith("/*+");
        }

        private static boolean isEnd(String text) {
            return text.strip().equalsIgnoreCase("END");
        }

        private static boolean isEndOfWord(String token) {
            return !Character.isJavaIdentifierPart(token.charAt(0));
        }

        /** Return where a quoted text, a comment or a single character ends. */
        private static int endOfToken(String script, int at) {
            char first = script.charAt(at);
            if (first == '\'' || first == '`') {
                return after(script, String.valueOf(first), at + 1);
            }
            if (script.startsWith("--", at)) {
                int end = script.indexOf('\n', at);
                return end < 0 ? script.length() : end;
            }
            return script.startsWith("/*", at) ? after(script, "*/", at + 2) : at + 1;
        }

        private static int after(String script, String mark, int from) {
            int end = script.indexOf(mark, from);
            return end < 0 ? script.length() : end + mark.length();
        }
    }
}
