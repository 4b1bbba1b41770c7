package dev.weir.agent;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * What the agent could not do in this JVM, and so left to Flink. Each failure is reported once, on
 * the standard error output: a logging framework may not be there yet.
 */
public final class StepBack {
    private static final int MOST = 30;
    private static final List<String> REASONS = new CopyOnWriteArrayList<>();

    private StepBack() {}

    /** Note a failure; never throws. */
    public static void because(String where, Throwable failure) {
        try {
            String reason = where + ": " + failure;
            reason = reason.replaceAll("\\s+", " ");
            if (REASONS.size() < MOST && !REASONS.contains(reason)) {
                REASONS.add(reason);
                System.err.println("[weir-agent] stepped back at " + reason);
            }
        } catch (Throwable ignored) {
            // Out of memory, perhaps: Flink itself will say so.
        }
    }

    /** Returns what failed, in order. */
    public static List<String> reasons() {
        return REASONS;
    }
}
