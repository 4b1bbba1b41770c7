package dev.weir.agent;

import dev.weir.agent.hooks.Hook;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.modifier.FieldPersistence;
import net.bytebuddy.description.modifier.SyntheticState;
import net.bytebuddy.description.modifier.Visibility;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.dynamic.DynamicType;
import net.bytebuddy.dynamic.scaffold.TypeValidation;
import net.bytebuddy.pool.TypePool;

/** Copies the code of hooks into the methods of a class. */
final class Weaver {
    private Weaver() {}

    /**
     * Returns the changed code of a class.
     *
     * @throws IllegalStateException the class has no method that a hook looks for
     */
    static byte[] weave(List<Hook> hooks, String type, ClassLoader loader, byte[] code) {
        ClassFileLocator locator =
                new ClassFileLocator.Compound(
                        ClassFileLocator.Simple.of(type, code),
                        ClassFileLocator.ForClassLoader.of(loader),
                        ClassFileLocator.ForClassLoader.ofSystemLoader());
        TypePool pool = TypePool.Default.of(locator);
        TypeDescription description = pool.describe(type).resolve();
        DynamicType.Builder<?> builder =
                new ByteBuddy()
                        .with(TypeValidation.DISABLED)
                        .redefine(description, locator);
        Map<String, Class<?>> fields = new TreeMap<>();
        hooks.forEach(hook -> fields.putAll(hook.fields()));
        for (Map.Entry<String, Class<?>> field : fields.entrySet()) {
            builder =
                    builder.defineField(
                            field.getKey(),
                            field.getValue(),
                            Visibility.PUBLIC,
                            field.getValue() == String.class
                                    ? FieldPersistence.PLAIN
                                    : FieldPersistence.TRANSIENT,
                            SyntheticState.SYNTHETIC);
        }
        for (Hook hook : hooks) {
            if (description.getDeclaredMethods().filter(hook.method()).isEmpty()) {
                throw new IllegalStateException("this Flink has no " + hook);
            }
            builder =
                    builder.visit(
                            Advice.to(hook.getClass(), ClassFileLocator.ForClassLoader.of(Hook.class.getClassLoader()))
                                    .on(hook.method()));
        }
        return builder.make(pool).getBytes();
    }
}
