import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Collections;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.FallbackKey;

/**
 * Prints the type of every key of Flink's and its older and fallback names, in the order in which
 * Flink looks for them; and for each line {@code TYPE TEXT} of the input whether Flink reads the
 * text as a value of the type.
 */
public final class ReadOptions {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    public static void main(String[] arguments) throws Exception {
        Path jar = Path.of(
                ConfigOption.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        try (JarFile file = new JarFile(jar.toFile())) {
            for (JarEntry entry : Collections.list(file.entries())) {
                String name = entry.getName();
                if (name.startsWith("org/apache/flink/") && name.endsWith("Options.class")) {
                    printKeys(name.replace('/', '.').replace(".class", ""));
                }
            }
        }
        BufferedReader lines = new BufferedReader(
                new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            int space = line.indexOf(' ');
            String type = line.substring(0, space);
            String text = line.substring(space + 1);
            OUT.println((isRead(type, text) ? "read " : "refused ") + line);
        }
    }

    private static void printKeys(String className) throws Exception {
        Field[] fields;
        try {
            fields = Class.forName(className).getDeclaredFields();
        } catch (LinkageError | ClassNotFoundException error) {
            return; // of a library that is not there
        }
        for (Field field : fields) {
            if (!Modifier.isStatic(field.getModifiers())
                    || field.getType() != ConfigOption.class) {
                continue;
            }
            field.setAccessible(true);
            ConfigOption<?> option = (ConfigOption<?>) field.get(null);
            Method type = ConfigOption.class.getDeclaredMethod("getClazz");
            type.setAccessible(true);
            String kind = ((Class<?>) type.invoke(option)).getSimpleName();
            OUT.println("key " + kind + " " + option.key());
            for (FallbackKey other : option.fallbackKeys()) {
                OUT.println("key " + kind + " " + other.getKey());
                OUT.println("older " + option.key() + " " + other.getKey());
            }
        }
    }

    private static boolean isRead(String type, String text) {
        Configuration configuration = new Configuration();
        configuration.setString("key", text);
        ConfigOptions.OptionBuilder option = ConfigOptions.key("key");
        try {
            if (type.equals("Duration")) {
                configuration.get(option.durationType().noDefaultValue());
            } else {
                configuration.get(option.memoryType().noDefaultValue());
            }
            return true;
        } catch (IllegalArgumentException error) {
            return false;
        }
    }
}
