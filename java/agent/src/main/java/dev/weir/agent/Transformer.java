package dev.weir.agent;

import dev.weir.agent.hooks.Hook;
import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Changes the classes that hooks name while they are loaded, and looks at no other.
 *
 * <p>ByteBuddy is loaded with the first of them: a JVM that starts has no work of it.
 */
final class Transformer implements ClassFileTransformer {
    private final Map<String, List<Hook>> hooks = new HashMap<>();

    Transformer(List<Hook> all) {
        for (Hook hook : all) {
            for (String type : hook.types()) {
                hooks.computeIfAbsent(type.replace('.', '/'), key -> new ArrayList<>()).add(hook);
            }
        }
    }

    @Override
    public byte[] transform(
            ClassLoader loader,
            String name,
            Class<?> redefined,
            ProtectionDomain domain,
            byte[] code) {
        List<Hook> found = name == null ? null : hooks.get(name);
        if (found == null) {
            return null;
        }
        try {
            return Weaver.weave(found, name.replace('/', '.'), loader, code);
        } catch (Throwable failure) {
            StepBack.because(name.substring(name.lastIndexOf('/') + 1), failure);
            return null;
        }
    }
}
