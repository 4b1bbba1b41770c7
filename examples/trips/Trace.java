package example;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Reads an arrival trace: one rate per line, records/s, one line per slot. */
final class Trace {
    private Trace() {}

    /**
     * Returns the rates in the file.
     *
     * @throws IllegalArgumentException a line is not a number >= 0, or there is none at all, or no file
     */
    static double[] read(Path file) throws IOException {
        if (!Files.isRegularFile(file)) {
            // A relative path starts where the JobManager runs, which the message has to show.
            throw new IllegalArgumentException(
                    "Trace " + file + ": expected a file, got none at " + file.toAbsolutePath());
        }
        List<String> lines = Files.readAllLines(file);
        double[] rates = new double[lines.size()];
        for (int i = 0; i < rates.length; i++) {
            rates[i] = rate(lines.get(i));
            if (!(rates[i] >= 0 && rates[i] < Double.POSITIVE_INFINITY)) {
                throw new IllegalArgumentException(
                        String.format(
                                "Trace %s, line %d: expected a rate in records/s, got \"%s\"",
                                file, i + 1, lines.get(i)));
            }
        }
        if (rates.length == 0) {
            throw new IllegalArgumentException("Trace " + file + ": expected rates, got no line");
        }
        return rates;
    }

    private static double rate(String line) {
        try {
            return Double.parseDouble(line);
        } catch (NumberFormatException text) {
            return Double.NaN;
        }
    }
}
